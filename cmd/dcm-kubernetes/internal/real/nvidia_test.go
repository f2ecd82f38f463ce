package real_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// deploy begins the labels with which NVIDIA's GPU operator selects its operands.
const deploy = "nvidia.com/gpu.deploy."

// migPlugin is the value of the label "app" of NVIDIA's device plugin.
const migPlugin = "nvidia-device-plugin-daemonset"

// TestNVIDIA changes a node of NVIDIA's GPU operator and one of AMD. The agents are the same program.
// The DaemonSets are real, so the labels that select them and their tolerations have their effect.
func TestNVIDIA(t *testing.T) {
	w := newWorld(t)
	w.plugin()
	w.operands()
	w.add("amd")
	w.addH100("h100")
	w.play()
	w.budget(1)
	w.until("the plugins", []string{"amd", "h100"}, func(o object) bool {
		return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" || sub(o, "status", "allocatable")["nvidia.com/gpu"] == "8"
	})
	program := w.program()
	w.agent(program, "amd", w.socket("amd"), "-drain=30s", "-retry=5s")
	a := w.agent(program, "h100", w.socket("h100"), "-drain=30s", "-retry=5s")

	t.Run("policy", w.policyOfNVIDIA)
	t.Run("both vendors", func(t *testing.T) {
		before := sub(w.do(http.MethodGet, nodes+"/h100", nil), "metadata", "labels")
		var during object
		w.dcm["h100"].Run = func() { during = sub(w.do(http.MethodGet, nodes+"/h100", nil), "metadata", "labels") }
		w.job("job-amd", "amd")
		w.jobOn("job-h100", "h100", "nvidia.com/gpu")
		w.label("amd", "small")
		w.choose("h100", "all-balanced")
		w.until("success", []string{"amd"}, applied("small", "success"))
		w.until("success", []string{"h100"}, chosen("all-balanced", "success"))
		w.dcm["h100"].Run = nil
		w.free()
		w.restored(t, before)
		for label, want := range map[string]any{deploy + "device-plugin": vendor.Paused, deploy + "dcgm-exporter": vendor.Paused, deploy + "dcgm": "false",
			deploy + "nvsm": nil, vendor.NVIDIA.State: "pending"} {
			if during[label] != want {
				t.Errorf("label %s was %v during the change, want %v", label, during[label], want)
			}
		}
		if w.most != 1 {
			t.Errorf("%d nodes concurrently", w.most)
		}
		if wrong := w.wrong("amd"); wrong != nil {
			t.Errorf("amd: %q", wrong)
		}
	})
	t.Run("agent killed in each phase", func(t *testing.T) {
		profile := "all-1g.10gb"
		for _, at := range []sequence.Phase{sequence.Waiting, sequence.Draining, sequence.Applying, sequence.Refreshing, ""} {
			before := sub(w.do(http.MethodGet, nodes+"/h100", nil), "metadata", "labels")
			uses := w.dcm["h100"].Uses()
			w.jobOn("again-"+cmp.Or(string(at), "end"), "h100", "nvidia.com/mig-1g.10gb")
			w.choose("h100", profile)
			w.until(string(at), []string{"h100"}, func(o object) bool { return at != "" && phase(o) == at || chosen(profile, "success")(o) })
			a.kill()
			killed := phase(w.do(http.MethodGet, nodes+"/h100", nil))
			a.start()
			w.until("success", []string{"h100"}, chosen(profile, "success"))
			w.free()
			t.Logf("killed in phase %q (want %q): success; %d changes", killed, at, w.dcm["h100"].Uses()-uses)
			if n := w.dcm["h100"].Uses() - uses; n != 1 {
				t.Errorf("%q: %d changes", at, n)
			}
			w.restored(t, before)
			profile = map[string]string{"all-1g.10gb": "all-balanced", "all-balanced": "all-1g.10gb"}[profile]
		}
	})
	t.Run("refused before the drain", func(t *testing.T) {
		uses := w.dcm["h100"].Uses()
		w.jobOn("stays", "h100", "nvidia.com/mig-1g.10gb")
		for label, try := range map[string]struct{ value, want string }{
			"nvidia.com/mig.strategy":             {"none", "MIG strategy"},
			"nvidia.com/gpu.workload.config":      {"vm-passthrough", "virtual machines"},
			"nvidia.com/gpu-driver-upgrade-state": {"pod-restart-required", "driver"},
		} {
			old := sub(w.do(http.MethodGet, nodes+"/h100", nil), "metadata", "labels")[label]
			w.mark("h100", label, try.value)
			w.choose("h100", "all-3g.40gb")
			w.until("the reason", []string{"h100"}, func(o object) bool {
				return strings.Contains(condition(o), try.want) && sub(o, "metadata", "labels")[vendor.NVIDIA.State] == "failed"
			})
			t.Log(condition(w.do(http.MethodGet, nodes+"/h100", nil)))
			w.choose("h100", "all-1g.10gb") // on the GPUs
			w.mark("h100", label, old)
			w.until("rest", []string{"h100"}, func(o object) bool { return sub(o, "metadata", "labels")[vendor.NVIDIA.State] == "success" })
		}
		if code, _, _ := w.as("root", http.MethodGet, pods+"/stays", "", nil); code != 200 || w.dcm["h100"].Uses() != uses {
			t.Errorf("the pod was evicted (%d), or the GPUs were changed (%d times)", code, w.dcm["h100"].Uses()-uses)
		}
	})
}

// addH100 creates a node of NVIDIA's GPU operator with eight H100, whose device plugin has the strategy
// mixed.
func (w *world) addH100(name string) {
	w.simulate(name, standin.NewH100())
	w.operated(name)
	w.enlist(name)
}

// operated gives a node the labels of NVIDIA's GPU operator.
func (w *world) operated(name string) {
	w.do(http.MethodPatch, nodes+"/"+name, object{"metadata": object{"labels": object{"gpu": nil, "nvidia.com/gpu.present": "true",
		"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.replicas": "1", deploy + "device-plugin": "true", deploy + "dcgm": "false",
		deploy + "dcgm-exporter": "yes", deploy + "operator-validator": "true"}}})
}

// operands creates DaemonSets of NVIDIA's GPU operator: the device plugin and the exporter, which
// tolerate all taints, and the validator.
func (w *world) operands() {
	for _, o := range []struct{ app, key, value, image string }{
		{migPlugin, "device-plugin", "true", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"},
		{"nvidia-dcgm-exporter", "dcgm-exporter", "yes", "nvcr.io/nvidia/k8s/dcgm-exporter:4.5"},
		{"nvidia-operator-validator", "operator-validator", "true", "nvcr.io/nvidia/gpu-operator:v26"},
	} {
		labels := object{"app": o.app}
		w.do(http.MethodPost, "/apis/apps/v1/namespaces/default/daemonsets", object{"metadata": object{"name": o.app}, "spec": object{
			"selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{
				"nodeSelector": object{deploy + o.key: o.value}, "terminationGracePeriodSeconds": 1, "tolerations": []any{object{"operator": "Exists"}},
				"volumes":    []any{object{"name": "v", "hostPath": object{"path": "/var/lib/kubelet/device-plugins"}}},
				"containers": []any{object{"name": "c", "image": o.image}}}}}})
	}
}

// mark sets a label; nil removes it.
func (w *world) mark(node, label string, value any) {
	w.do(http.MethodPatch, nodes+"/"+node, object{"metadata": object{"labels": object{label: value}}})
}

// choose selects a configuration of NVIDIA's GPUs.
func (w *world) choose(node, profile string) { w.mark(node, vendor.NVIDIA.Profile, profile) }

// chosen is [applied] for NVIDIA.
func chosen(profile, state string) func(object) bool { return appliedOf(vendor.NVIDIA, profile, state) }

// restored checks that the labels of the node are those from before, and that it is settled.
func (w *world) restored(t *testing.T, before object) {
	t.Helper()
	o := w.do(http.MethodGet, nodes+"/h100", nil)
	after := sub(o, "metadata", "labels")
	for _, own := range []string{vendor.NVIDIA.Profile, vendor.NVIDIA.State} {
		delete(after, own)
		delete(before, own)
	}
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("labels are\n%v, want\n%v", after, before)
	}
	if wrong := w.wrong("h100"); wrong != nil {
		t.Errorf("h100: %q", wrong)
	}
}

// migResource returns the resource of a MIG profile; "" is a whole GPU.
func migResource(profile string) string {
	if profile == "" {
		return "nvidia.com/gpu"
	}
	return "nvidia.com/mig-" + strings.ReplaceAll(profile, "+", ".")
}

// policyOfNVIDIA tries, with the token of a node's agent, changes of labels that select operands.
func (w *world) policyOfNVIDIA(t *testing.T) {
	const name, at = "tried-h100", nodes + "/tried-h100"
	const plugin, dcgm = deploy + "device-plugin", deploy + "dcgm"
	w.addH100(name)
	set := func(labels object) object { return object{"metadata": object{"labels": labels}} }
	text, err := json.Marshal(sequence.Operation{ID: "a", Phase: sequence.Draining, Vendor: vendor.NVIDIA.Name, Paused: map[string]string{plugin: "true"}})
	if err != nil {
		t.Fatal(err)
	}
	operation := object{cluster.Operation: string(text)}
	// with is a pause of a label, with an operation that has this text in its field "paused".
	with := func(label, paused string) object {
		return object{"metadata": object{"labels": object{label: vendor.Paused}, "annotations": object{cluster.Operation: strings.Replace(string(text), `"paused":{`, `"paused":{`+paused+",", 1)}}}
	}
	taints := []any{object{"key": vendor.NVIDIA.Taint.Key, "value": vendor.NVIDIA.Taint.Value, "effect": "NoSchedule"}}
	w.awaitPolicy(name)
	for _, try := range []attempt{
		{what: "its state", body: set(object{vendor.NVIDIA.State: "pending"})},
		{what: "the selected configuration", body: set(object{vendor.NVIDIA.Profile: "all-disabled"}), refused: "no label but"},
		{what: "the MIG strategy", body: set(object{"nvidia.com/mig.strategy": "single"}), refused: "no label but"},
		{what: "an operand's label of another value", body: set(object{plugin: "false"}), refused: "no label but"},
		{what: "an operand's label that is absent", body: set(object{deploy + "nvsm": vendor.Paused}), refused: "no label but"},
		{what: "an operand's label away", body: set(object{plugin: nil}), refused: "no label but"},
		{what: "the beginning of an operation", body: object{"metadata": object{"labels": object{plugin: vendor.Paused, vendor.NVIDIA.State: "pending"}, "annotations": operation},
			"spec": object{"unschedulable": true, "taints": taints}}},
		{what: "another value in the operation", body: object{"metadata": object{"annotations": object{cluster.Operation: strings.Replace(string(text), `"true"`, `"false"`, 1)}}}, refused: "no label but"},
		{what: "a second value in the operation", body: with(plugin, `"`+plugin+`":"false"`), refused: "no label but"},
		{what: "the operation away, with the label paused", body: object{"metadata": object{"annotations": object{cluster.Operation: nil}}}, refused: "no label but"},
		{what: "a pause without its value", body: set(object{dcgm: vendor.Paused}), refused: "no label but"},
		{what: "a pause with another value", body: with(dcgm, `"`+dcgm+`":"true"`), refused: "no label but"},
		{what: "a pause with two values", body: with(dcgm, `"`+dcgm+`":"false","`+dcgm+`":"true"`), refused: "no label but"},
		{what: "a pause with its value", body: with(dcgm, `"`+dcgm+`":"false"`)},
		{what: "another value than that", body: set(object{dcgm: "true"}), refused: "no label but"},
		{what: "the value from before the pause", body: set(object{dcgm: "false"})},
		{what: "a paused label to another value", body: set(object{plugin: "mine"}), refused: "no label but"},
		{what: "a paused label away", body: set(object{plugin: nil}), refused: "no label but"},
		{what: "a paused label to its value from before", body: set(object{plugin: "true"})},
		{what: "the same pause again", body: set(object{plugin: vendor.Paused})},
		{what: "the end of the operation with another value", body: object{"metadata": object{"labels": object{plugin: "false"}, "annotations": object{cluster.Operation: nil}},
			"spec": object{"unschedulable": nil}}, refused: "no label but"},
		{what: "the end of the operation", body: object{"metadata": object{"labels": object{plugin: "true", vendor.NVIDIA.State: "success"}, "annotations": object{cluster.Operation: nil}},
			"spec": object{"unschedulable": nil}}},
		{what: "a restored label without an operation", prepare: func() { w.mark(name, dcgm, vendor.Paused) }, body: set(object{dcgm: "true"}), refused: "no label but"},
		{what: "the taint with another effect", body: object{"spec": object{"taints": []any{object{"key": vendor.NVIDIA.Taint.Key, "effect": "NoExecute"}}}}, refused: "no taint but"},
	} {
		w.try(t, name, try, at)
	}
}
