package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

const deploy = "nvidia.com/gpu.deploy."

// addH100 creates a node of NVIDIA's GPU operator with eight H100: the device plugin with the strategy
// mixed, the operator's validator with its pods, and a pod that uses a GPU.
func (w *world) addH100(name string) {
	w.dcm[name] = standin.NewH100()
	w.h100[name] = true
	labels := standin.Object{"nvidia.com/gpu.present": "true", "nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.replicas": "1",
		deploy + "device-plugin": "true", deploy + "dcgm": "false", deploy + "dcgm-exporter": "yes", deploy + "dra-driver": "true", deploy + "operator-validator": "true"}
	w.api.Put(nodes+name, standin.Object{"kind": "Node", "apiVersion": "v1", "metadata": standin.Object{"name": name, "uid": name, "labels": labels},
		"spec": standin.Object{}, "status": standin.Object{"allocatable": standin.Object{"nvidia.com/gpu": "8", "cpu": "96"}}})
	for _, o := range h100Pods(name, "0") {
		w.api.Put(pods+standin.Sub(o, "metadata")["name"].(string), o)
	}
	w.api.Put(pods+"job-"+name, standin.Object{"metadata": standin.Object{"namespace": "default", "name": "job-" + name, "uid": "job-" + name,
		"ownerReferences": []any{standin.Object{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "job", "uid": "rs", "controller": true}}},
		"spec": standin.Object{"nodeName": name, "containers": []any{standin.Object{"name": "c", "resources": standin.Object{"limits": standin.Object{"nvidia.com/gpu": "1"}}}}}})
	w.api.Put(pods+"web-"+name, standin.Object{"metadata": standin.Object{"namespace": "default", "name": "web-" + name, "uid": "web-" + name},
		"spec": standin.Object{"nodeName": name, "containers": []any{standin.Object{"name": "c"}}}})
}

// h100Pods returns the operands: the device plugin, the validator, and a completed pod of the
// validator.
func h100Pods(node, uid string) []standin.Object {
	pod := func(name, app, image, phase string) standin.Object {
		return standin.Object{
			"metadata": standin.Object{"namespace": "default", "name": name + "-" + node, "uid": name + uid, "labels": standin.Object{"app": app},
				"ownerReferences": []any{standin.Object{"kind": "DaemonSet", "apiVersion": "apps/v1", "name": name, "uid": "ds", "controller": true}}},
			"spec":   standin.Object{"nodeName": node, "containers": []any{standin.Object{"name": "c", "image": image}}},
			"status": standin.Object{"phase": phase, "conditions": []any{standin.Object{"type": "Ready", "status": "True"}}}}
	}
	plugin := pod("plugin", "nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "Running")
	spec := standin.Sub(plugin, "spec")
	spec["nodeSelector"] = standin.Object{deploy + "device-plugin": "true"}
	spec["volumes"] = []any{standin.Object{"name": "v", "hostPath": standin.Object{"path": "/var/lib/kubelet/device-plugins"}}}
	spec["tolerations"] = []any{standin.Object{"operator": "Exists"}}
	return []standin.Object{plugin,
		pod("validator", "nvidia-operator-validator", "nvcr.io/nvidia/gpu-operator:v26", "Running"),
		pod("cuda", "nvidia-cuda-validator", "nvcr.io/nvidia/gpu-operator:v26", "Succeeded")}
}

// followH100 simulates the DaemonSet controller and the kubelet: the label selects the device plugin,
// which tolerates all taints. It reports the instances when it starts.
func (w *world) followH100(tree standin.Tree, node standin.Object) {
	name := standin.Sub(node, "metadata")["name"].(string)
	at := pods + "plugin-" + name
	if standin.Sub(node, "metadata", "labels")[deploy+"device-plugin"] != "true" {
		tree.Delete(at)
		standin.Sub(node, "status")["allocatable"] = standin.Object{"cpu": "96", "nvidia.com/gpu": "0"}
		return
	}
	if tree.Get(at) != nil {
		return
	}
	w.restarts++
	for _, o := range h100Pods(name, fmt.Sprint(w.restarts)) {
		tree.Put(pods+standin.Sub(o, "metadata")["name"].(string), o)
	}
	counts := standin.Object{"cpu": "96", "nvidia.com/gpu": "0"}
	a, _ := w.dcm[name].Account(w.t.Context())
	for profile, n := range a.MIG().Partitions {
		resource := "nvidia.com/gpu"
		if profile != "" {
			resource = "nvidia.com/mig-" + strings.ReplaceAll(profile, "+", ".")
		}
		counts[resource] = fmt.Sprint(n)
	}
	standin.Sub(node, "status")["allocatable"] = counts
	tree.Put(nodes+name, node)
}

// labels returns the labels of a node.
func (w *world) labels(node string) standin.Object {
	return standin.Sub(w.api.Get(nodes+node), "metadata", "labels")
}

// The agent that serves a node of AMD serves one of NVIDIA. No ConfigMap has the profile.
func TestH100_LabelAppliesProfile(t *testing.T) {
	w := newWorld(t, "n1")
	w.addH100("n2")
	w.budget(2)
	w.start("n1")
	w.start("n2")
	before := w.labels("n2")
	var during standin.Object
	w.dcm["n2"].Run = func() { during = w.labels("n2") }
	w.label("n1", "small")
	w.label("n2", "all-balanced")
	w.until("success", func() bool { return w.state("n1") == "success" && w.state("n2") == "success" && w.held() == 0 })
	for _, n := range []string{"n1", "n2"} {
		if wrong := w.atRest(n); wrong != nil {
			t.Errorf("%s: %q", n, wrong)
		}
	}
	if n := w.dcm["n2"].Partitions(); n != 32 {
		t.Errorf("%d instances, want 32", n)
	}
	want := map[string]any{deploy + "device-plugin": vendor.Paused, deploy + "dcgm": "false", deploy + "dcgm-exporter": vendor.Paused, deploy + "dra-driver": vendor.Paused,
		deploy + "operator-validator": "true", deploy + "nvsm": nil, vendor.NVIDIA.State: "pending"}
	for label, value := range want {
		if during[label] != value {
			t.Errorf("label %s was %v during the change, want %v", label, during[label], value)
		}
	}
	after := w.labels("n2")
	delete(after, vendor.NVIDIA.Profile)
	delete(after, vendor.NVIDIA.State)
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("labels are\n%v, want\n%v", after, before)
	}
	for _, name := range []string{"validator", "cuda"} {
		if uid := standin.Sub(w.api.Get(pods+name+"-n2"), "metadata")["uid"]; uid != name+"1" {
			t.Errorf("the pod %s is %v: it was not restarted", name, uid)
		}
	}
}

func TestH100_FailureState(t *testing.T) {
	w := newWorld(t)
	w.addH100("n1")
	w.budget(1)
	w.start("n1")
	w.label("n1", "all-9g.10gb")
	w.until("failed", func() bool {
		return w.state("n1") == "failed" && strings.HasPrefix(w.condition("n1"), "False NonExistentProfile: ")
	})
	if w.api.Get(pods+"job-n1") == nil {
		t.Error("the node was drained")
	}
}

func TestLabelsOfBothVendors_Refused(t *testing.T) {
	w := newWorld(t)
	w.addH100("n1")
	w.budget(1)
	w.start("n1")
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		standin.Sub(o, "metadata", "labels")[vendor.AMD.Profile] = "small"
		standin.Sub(o, "metadata", "labels")[vendor.NVIDIA.Profile] = "all-balanced"
		tree.Put(nodes+"n1", o)
	})
	w.until("the reason", func() bool {
		return strings.Contains(w.condition("n1"), "labels of two vendors select a profile (found dcm.amd.com/gpu-config-profile=small and nvidia.com/mig.config=all-balanced")
	})
	w.until("the states", func() bool {
		return w.labels("n1")[vendor.AMD.State] == "failure" && w.labels("n1")[vendor.NVIDIA.State] == "failed"
	})
	if w.dcm["n1"].Uses() > 0 || w.api.Get(pods+"job-n1") == nil {
		t.Error("the node was changed")
	}
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		delete(standin.Sub(o, "metadata", "labels"), vendor.AMD.Profile)
		tree.Put(nodes+"n1", o)
	})
	w.until("success", func() bool { return w.labels("n1")[vendor.NVIDIA.State] == "success" })
}

// A pod that ends needs the DRA driver, so its label is paused after the drain.
func TestH100_DRADriverPausedLast(t *testing.T) {
	w := newWorld(t)
	w.addH100("n1")
	w.budget(1)
	w.api.Evict = func(string) (int, string) { return 429, standin.Budget }
	w.start("n1")
	w.label("n1", "all-balanced")
	w.until("the drain", func() bool {
		return w.phase("n1") == sequence.Draining && w.labels("n1")[deploy+"device-plugin"] == vendor.Paused
	})
	if got := w.labels("n1")[deploy+"dra-driver"]; got != "true" {
		t.Errorf("the DRA driver's label is %v during the drain", got)
	}
	var op sequence.Operation
	text, _ := standin.Sub(w.api.Get(nodes+"n1"), "metadata", "annotations")[cluster.Operation].(string)
	if err := json.Unmarshal([]byte(text), &op); err != nil || op.Paused[deploy+"dra-driver"] != "true" || op.Paused[deploy+"dcgm-exporter"] != "yes" || len(op.Paused) != 3 {
		t.Errorf("the operation has %v, %v", op.Paused, err)
	}
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + "n1")
		delete(standin.Sub(o, "metadata", "labels"), vendor.NVIDIA.Profile)
		tree.Put(nodes+"n1", o)
	})
	w.config(text + " ") // ends the pause after the refused eviction
	w.until("the labels from before", func() bool {
		return w.phase("n1") == "" && w.labels("n1")[deploy+"device-plugin"] == "true" && w.labels("n1")[deploy+"dcgm-exporter"] == "yes"
	})
}
