package real_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// TestGPUCluster changes a node with the DaemonSets of a GPUCluster of NVIDIA's GPU operator 26.7, and an
// exporter of another chart. Validator and exporters hold claims. The kubelet ends these only while the DRA
// driver runs.
func TestGPUCluster(t *testing.T) {
	w := newWorld(t)
	w.do(http.MethodPatch, "/api/v1/namespaces/default", object{"metadata": object{"labels": object{"resource.kubernetes.io/admin-access": "true"}}})
	w.simulate("h100", standin.NewH100())
	for label, value := range map[string]any{"gpu": nil, "nvidia.com/gpu.present": "true", deploy + "dra-driver": "true", deploy + "dra-validator": "true",
		deploy + "dcgm-exporter-dra": "true"} {
		w.mark("h100", label, value)
	}
	w.enlist("h100")
	w.monitored("h100")
	w.play()
	for _, d := range []struct{ app, selects, image string }{
		{"driver", deploy + "dra-driver", "nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0"},
		{"nvidia-operator-validator", deploy + "dra-validator", "nvcr.io/nvidia/gpu-operator:v26.7.0"},
		{"nvidia-dcgm-exporter-dra", deploy + "dcgm-exporter-dra", "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0"},
		{"exporter", "nvidia.com/gpu.present", "example.org/exporter:1"},
	} {
		w.daemon(d.app, d.selects, d.image)
	}
	w.budget(1)
	w.running("h100", 4)
	w.agent(w.program(), "h100", w.socket("h100"), "-drain=1h", "-retry=5s")
	for _, profile := range []string{"all-balanced", "all-1g.10gb", "all-disabled"} {
		before := sub(w.do(http.MethodGet, nodes+"/h100", nil), "metadata", "labels")
		var during []string
		w.dcm["h100"].Run = func() { during = w.names("h100") }
		w.choose("h100", profile)
		w.until("success", []string{"h100"}, chosen(profile, "success"))
		w.free()
		w.restored(t, before)
		if during != nil {
			t.Errorf("%s: pods during the change: %q", profile, during)
		}
		w.running("h100", 4)
	}
}

// monitored creates the claim of a node's validator and exporters.
func (w *world) monitored(name string) {
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	w.do(http.MethodPost, claims, object{"metadata": object{"name": "monitor"}, "spec": object{"devices": object{"requests": []any{
		object{"name": "r", "exactly": object{"deviceClassName": vendor.NVIDIA.Driver, "allocationMode": "All", "adminAccess": true}}}}}})
	w.do(http.MethodPatch, claims+"/monitor/status", object{"status": object{"allocation": object{"devices": object{
		"results": []any{object{"request": "r", "driver": vendor.NVIDIA.Driver, "pool": name, "device": "gpu-0", "adminAccess": true}}}}}})
}

// daemon creates a DaemonSet that a label of the node selects. All but the DRA driver hold the claim.
func (w *world) daemon(app, selects, image string) {
	labels := object{"app": app}
	spec := object{"nodeSelector": object{selects: "true"}, "terminationGracePeriodSeconds": 1, "containers": []any{object{"name": "c", "image": image}}}
	if app != "driver" {
		spec["resourceClaims"] = []any{object{"name": "gpus", "resourceClaimName": "monitor"}}
	}
	w.do(http.MethodPost, "/apis/apps/v1/namespaces/default/daemonsets", object{"metadata": object{"name": app}, "spec": object{
		"selector": object{"matchLabels": labels}, "template": object{"metadata": object{"labels": labels}, "spec": spec}}})
}

// names returns the DaemonSets with a pod on a node.
func (w *world) names(name string) (apps []string) {
	items, _ := w.do(http.MethodGet, pods+"?fieldSelector=spec.nodeName="+name, nil)["items"].([]any)
	for _, p := range items {
		if app, _ := sub(p.(object), "metadata", "labels")["app"].(string); app != "" {
			apps = append(apps, app)
		}
	}
	slices.Sort(apps)
	return apps
}

// running waits until a node has pods of n DaemonSets that do not terminate.
func (w *world) running(name string, n int) {
	w.t.Helper()
	want := strings.Fields(strings.Repeat("running ", n))
	w.await(w.t, want, func() (got []string) {
		items, _ := w.do(http.MethodGet, pods+"?fieldSelector=spec.nodeName="+name, nil)["items"].([]any)
		for _, p := range items {
			if p := p.(object); sub(p, "status")["phase"] == "Running" && sub(p, "metadata")["deletionTimestamp"] == nil {
				got = append(got, "running")
			}
		}
		return got
	})
}
