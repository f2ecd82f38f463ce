package bridge_test

import (
	"strings"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/standin"
)

// A DRA driver that gets DynamicMIG after a change destroys the instances that it has not created. The agent
// at rest names it.
func TestRival_AtRest(t *testing.T) {
	const rival = "the DRA driver default/dra partitions GPUs for claims. hint: remove DynamicMIG from its feature gates"
	driver := standin.Object{
		"metadata": standin.Object{"namespace": "default", "name": "dra", "uid": "dra",
			"ownerReferences": []any{standin.Object{"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "dra", "uid": "ds", "controller": true}}},
		"spec": standin.Object{"nodeName": "n1", "containers": []any{standin.Object{"name": "c", "image": "nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0",
			"env": []any{standin.Object{"name": "FEATURE_GATES", "value": "DynamicMIG=true"}}}}}}
	for name, tt := range map[string]struct {
		drifts    bool
		heartbeat time.Duration
		want      string
	}{
		"in sync":     {false, 5 * time.Millisecond, "False OtherManager: " + rival},
		"not in sync": {true, 0, "False OtherManager: the GPUs do not match the profile; " + rival},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.times.Heartbeat = tt.heartbeat
			w.addH100("n1")
			w.budget(1)
			w.start("n1")
			w.label("n1", "all-balanced")
			w.until("success", func() bool { return strings.HasPrefix(w.condition("n1"), "True Applied: ") && w.held() == 0 })
			w.api.Put(pods+"dra", driver)
			w.dcm["n1"].Drift(tt.drifts)
			w.until("the rival", func() bool { return w.condition("n1") == tt.want })
			w.api.Do(func(tree standin.Tree) { tree.Delete(pods + "dra") })
			w.dcm["n1"].Drift(false)
			w.until("the end", func() bool { return tt.heartbeat == 0 || strings.HasPrefix(w.condition("n1"), "True Applied: ") })
		})
	}
}
