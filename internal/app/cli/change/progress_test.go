package change

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// Until the second attempt of a change has its own report, the report of the first one is not shown again.
func TestProgress_SecondAttempt(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := newProgress(&console.Console{Out: &out}, nil)
	p.began = p.began.Add(-time.Minute)
	attempt := func(began time.Duration) {
		t.Helper()
		s := runstate.State{Version: runstate.Version, Phase: runstate.Applying, Since: p.began.Add(began), Pending: runstate.PendingStarts{{Unit: "a.service"}}}
		if err := runstate.StateIn(h.Runtime()).Write(s); err != nil {
			t.Fatal(err)
		}
		p.update(h)
	}
	attempt(time.Second)
	run := runstate.Run{Version: runstate.Version, ID: "1", Result: runstate.Refused, Error: &runstate.Error{Text: "busy"}, Started: p.began.Add(2 * time.Second), Finished: p.began.Add(4 * time.Second),
		Steps: []runstate.Step{{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "0000:65:00.0", From: "SPX", To: "CPX"},
			Started: p.began.Add(2 * time.Second), Finished: p.began.Add(3 * time.Second), Error: "busy"}}}
	if err := runstate.RunIn(h.Runtime()).Write(run); err != nil {
		t.Fatal(err)
	}
	p.update(h)
	attempt(10 * time.Second)
	if got := out.String(); strings.Count(got, "busy") != 1 || strings.Contains(got, "-") {
		t.Errorf("progress: want one failure and no negative time, got:\n%s", got)
	}
}
