package real_test

import (
	"os"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// outageLimit is within which an agent continues after the API server is ready again: an interval between
// two attempts to watch, and the retries while the server still starts.
const outageLimit = 15 * time.Second

// TestOutage ends the API server during a change. The agent continues soon after the server is back,
// although it has failed for a minute. The retries of other controllers have no part in it.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	w.plugin()
	n1 := []string{"n1"}
	w.add("n1")
	w.play()
	w.until("the plugin", n1, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" })
	w.budget(1)
	r := &reporter{world: w, dcm: played(w, "n1")}
	r.agent = w.agent(w.program(), "n1", w.socket("n1"), "-retry=5s")
	away := 60 * time.Second
	if s, err := time.ParseDuration(os.Getenv("DCM_AWAY")); err == nil {
		away = s
	}
	for _, profile := range []string{"small", "whole", "small"} {
		r.inChange(t, profile, w.server.kill)
		<-time.After(away)
		w.serve()
		up := time.Now()
		w.until("the next phase", n1, func(o object) bool { return phase(o) != sequence.Applying })
		took := time.Since(up).Round(time.Millisecond)
		w.until("success", n1, applied(profile, "success"))
		t.Logf("the agent continued %s after the API server was ready; success after %s", took, time.Since(up).Round(time.Millisecond))
		if took > outageLimit {
			t.Errorf("the agent continued after %s, want at most %s", took, outageLimit)
		}
		w.free()
	}
}
