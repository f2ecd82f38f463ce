package real_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// outageLimit is within which an agent continues after the API server is ready again: an interval between
// two attempts to watch, and the retries while the server still starts.
const outageLimit = 15 * time.Second

// TestOutage ends the API server during a change. The agent continues soon after the server is back,
// although its requests have failed for a minute.
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
	for _, profile := range []string{"small", "whole"} {
		r.inChange(t, profile, func() {
			w.until("applying", n1, func(o object) bool { return phase(o) == sequence.Applying })
			w.outage()
		})
		<-time.After(away)
		w.endOutage()
		up := time.Now()
		w.until("the next phase", n1, func(o object) bool { return phase(o) == sequence.Refreshing || applied(profile, "success")(o) })
		took := time.Since(up)
		if took > outageLimit {
			t.Errorf("the agent continued after %s, want at most %s", took, outageLimit)
		}
		w.until("success", n1, applied(profile, "success"))
		ended := time.Now()
		t.Logf("after the API server was ready: the agent continued after %s, the device plugin's pod was created after %s, success after %s",
			took.Round(time.Millisecond), w.pluginOf("n1").Sub(up).Round(time.Second), ended.Sub(up).Round(time.Millisecond))
		w.free()
	}
}

// pluginOf returns when the device plugin's pod of a node was created.
func (w *world) pluginOf(name string) time.Time {
	w.t.Helper()
	items, _ := w.do(http.MethodGet, pods+"?labelSelector=app=plugin&fieldSelector=spec.nodeName="+name, nil)["items"].([]any)
	if len(items) != 1 {
		w.t.Fatalf("%d pods of the device plugin, want 1", len(items))
	}
	created, err := time.Parse(time.RFC3339, fmt.Sprint(sub(items[0].(object), "metadata")["creationTimestamp"]))
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}
