package selftestcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/text"
)

// A change that a process blocks shows it before the wait ends. The archive does not name the process.
func TestAwait_ShowsHolder(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(s runstate.State) {
		t.Helper()
		s.Profile = "selftest-cpx-nps4"
		if err := runstate.StateIn(h.Runtime()).Write(s); err != nil {
			t.Fatal(err)
		}
	}
	holders := []runstate.Holder{{PID: 7, Command: "secret-project-x", Unit: "customer-acme1.service", Devices: []string{"/dev/kfd"}}}
	write(runstate.State{Phase: runstate.Waiting, Error: runstate.InUse(holders), Holders: holders})
	var shown []wait
	began := time.Now()
	e := newTest(t.Context(), h, &config.Config{}, began, func(e event) {
		shown = append(shown, *e.Wait)
		write(runstate.State{Phase: runstate.InSync})
	})
	if err := e.await(t.Context(), "CPX/NPS4", "selftest-cpx-nps4", true); err != nil {
		t.Fatal(err)
	}
	if len(shown) != 1 || shown[0].What != "CPX/NPS4" || shown[0].Reason != "GPUs are in use: secret-project-x (pid 7, customer-acme1.service) has /dev/kfd open" || shown[0].Until.Before(began.Add(retryTimeout)) {
		t.Fatalf("shown: %+v", shown)
	}
	e.check(selftest.Check{At: "CPX/NPS4", What: "the change", Verdict: selftest.Wrong, Text: shown[0].Reason})
	packed, err := packed(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if text := unpacked(t, packed); strings.Contains(text, "secret-project-x") || strings.Contains(text, "customer-acme1") {
		t.Error("the archive names the process or its unit")
	}
}

// A reason is shown once. A bounded wait without a holder is short, and is not shown.
func TestWaiter_Reasons(t *testing.T) {
	holder := func(pid int) runstate.State {
		list := []runstate.Holder{{PID: pid, Command: "train"}}
		return runstate.State{Phase: runstate.Waiting, Error: runstate.InUse(list), Holders: list}
	}
	own := holder(7)
	own.Holders[0].Unit = selftestUnit
	unseen := runstate.State{Phase: runstate.Waiting, Error: &runstate.Error{Text: "the driver is in use"}}
	for name, tt := range map[string]struct {
		bounded bool
		states  []runstate.State
		want    string // the reasons
	}{
		"the same process":          {true, []runstate.State{holder(7), holder(7)}, "GPUs are in use: train (pid 7, no unit) may open partitions"},
		"another process":           {true, []runstate.State{holder(7), holder(8)}, "GPUs are in use: train (pid 7, no unit) may open partitions|GPUs are in use: train (pid 8, no unit) may open partitions"},
		"the self-test itself":      {true, []runstate.State{own}, ""},
		"no holder is visible":      {true, []runstate.State{unseen}, ""},
		"the same, without a bound": {false, []runstate.State{unseen}, "the driver is in use"},
		"no error":                  {false, []runstate.State{{Phase: runstate.Applying}}, ""},
	} {
		var shown []string
		w := waiter{wait: wait{What: "x"}, bounded: tt.bounded, emit: func(e event) { shown = append(shown, e.Wait.Reason) }}
		for _, s := range tt.states {
			w.show(&s)
		}
		if got := strings.Join(shown, "|"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The line of a wait is written without a terminal too. On a terminal it is wrapped.
func TestView_Wait(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	line, err := json.Marshal(event{Wait: &wait{"CPX/NPS4: the change after the GPU is closed", "GPUs are in use: train (pid 7, training.service) has /dev/kfd open", until}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "… CPX/NPS4: the change after the GPU is closed waits until 03:04:05: GPUs are in use: train (pid 7, training.service) has /dev/kfd open"
	for _, width := range []int{0, 60, 80, 160} {
		var out bytes.Buffer
		con := &console.Console{Out: &out, Err: &out}
		if width > 0 {
			con = console.Fixed(&out, width)
		}
		(&view{con: con}).line(string(line))
		if diff := cmp.Diff(want, strings.Join(strings.Fields(out.String()), " ")); diff != "" || width == 0 && strings.Count(out.String(), "\n") != 1 {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
		for row := range strings.Lines(out.String()) {
			if n := text.Width(strings.TrimRight(row, "\n")); width > 0 && n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, row)
			}
		}
	}
}
