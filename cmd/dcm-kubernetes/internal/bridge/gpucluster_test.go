package bridge_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// operator is a node of gpu-operator 26.7 with a GPUCluster. It has no device plugin. The validator, the
// exporter and an exporter of another chart hold claims of the DRA driver.
type operator struct {
	*world
	name   string
	starts int
	wedged atomic.Bool // a pod with a claim terminates, and no DRA driver can release the claim
}

// daemon is a DaemonSet of the node.
type daemon struct {
	label, image string // label that selects it, after [deploy]; "" for a DaemonSet that no label selects
	claims       bool
}

var gpuCluster = map[string]daemon{
	"driver":    {"dra-driver", "nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0", false},
	"validator": {"dra-validator", "nvcr.io/nvidia/gpu-operator:v26.7.0", true},
	"exporter":  {"dcgm-exporter-dra", "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0", true},
	"foreign":   {"", "example.org/exporter:1", true},
}

func (w *world) addGPUCluster(name string) *operator {
	o := &operator{world: w, name: name}
	w.dcm[name], w.h100[name] = standin.NewH100(), true
	labels := standin.Object{"nvidia.com/gpu.present": "true"}
	for _, d := range gpuCluster {
		if d.label != "" {
			labels[deploy+d.label] = "true"
		}
	}
	w.api.Put(nodes+name, standin.Object{"kind": "Node", "apiVersion": "v1", "metadata": standin.Object{"name": name, "uid": name, "labels": labels},
		"spec": standin.Object{}, "status": standin.Object{"allocatable": standin.Object{"cpu": "96"}}})
	w.api.After = func(tree standin.Tree, node standin.Object) { o.control(tree, node) }
	w.api.End = o.end
	w.api.Meet = func(request string, after bool) bool {
		if after && request == "GET v1/pods" {
			w.api.Do(o.kubelet)
		}
		return false
	}
	w.api.Do(func(tree standin.Tree) { o.control(tree, tree.Get(nodes+name)) })
	return o
}

// control simulates the DaemonSet's controller: the labels and the taint decide which pods run.
func (o *operator) control(tree standin.Tree, node standin.Object) {
	tainted := standin.Sub(node, "spec")["taints"] != nil
	for _, name := range slices.Sorted(maps.Keys(gpuCluster)) {
		d, at := gpuCluster[name], pods+name+"-"+o.name
		selected := d.label == "" || standin.Sub(node, "metadata", "labels")[deploy+d.label] == "true"
		switch pod := tree.Get(at); {
		case pod != nil && !selected:
			tree.End(at)
		case pod == nil && selected && !tainted:
			o.create(tree, name, d)
		}
	}
}

func (o *operator) create(tree standin.Tree, name string, d daemon) {
	o.starts++
	full := name + "-" + o.name
	spec := standin.Object{"nodeName": o.name, "containers": []any{standin.Object{"name": "c", "image": d.image}}}
	if d.label != "" {
		spec["nodeSelector"] = standin.Object{deploy + d.label: "true"}
	}
	if d.claims {
		spec["resourceClaims"] = []any{standin.Object{"name": "gpu", "resourceClaimName": full}}
		tree.Put("resource.k8s.io/v1/namespaces/default/resourceclaims/"+full, standin.Object{"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1",
			"metadata": standin.Object{"namespace": "default", "name": full}, "status": standin.Object{"allocation": standin.Object{"devices": standin.Object{
				"results": []any{standin.Object{"driver": "gpu.nvidia.com", "pool": o.name, "device": "gpu-0", "adminAccess": true}}}}}})
	}
	tree.Put(pods+full, standin.Object{
		"metadata": standin.Object{"namespace": "default", "name": full, "uid": fmt.Sprint(full, o.starts),
			"ownerReferences": []any{standin.Object{"kind": "DaemonSet", "apiVersion": "apps/v1", "name": name, "uid": "ds", "controller": true}}},
		"spec":   spec,
		"status": standin.Object{"phase": "Running", "conditions": []any{standin.Object{"type": "Ready", "status": "True"}}}})
	if name == "driver" {
		o.publish(tree)
	}
}

// publish writes the devices, as the DRA driver does when it starts.
func (o *operator) publish(tree standin.Tree) {
	var devices []any
	account, _ := o.dcm[o.name].Account(o.t.Context())
	for profile, n := range account.MIG().Partitions {
		kind := "mig"
		if profile == "" {
			kind = "gpu"
		}
		for i := range n {
			devices = append(devices, standin.Object{"name": fmt.Sprint(kind, len(devices), "-", i), "attributes": standin.Object{
				"type": standin.Object{"string": kind}, "profile": standin.Object{"string": profile}}})
		}
	}
	tree.Put("resource.k8s.io/v1/resourceslices/"+o.name, standin.Object{"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1",
		"metadata": standin.Object{"name": o.name}, "spec": standin.Object{"driver": "gpu.nvidia.com", "nodeName": o.name,
			"pool": standin.Object{"name": o.name, "generation": 1, "resourceSliceCount": 1}, "devices": devices}})
}

// end reports whether a deleted pod ends immediately. One with a claim terminates, and the kubelet ends it.
func (o *operator) end(pod standin.Object) bool {
	return standin.Sub(pod, "spec")["resourceClaims"] == nil
}

// kubelet simulates the kubelet: it ends a pod with a claim when the agent has seen it terminate, if the
// DRA driver can release the claim.
func (o *operator) kubelet(tree standin.Tree) {
	driver := tree.Get(pods+"driver-"+o.name) != nil
	for name, d := range gpuCluster {
		at := pods + name + "-" + o.name
		pod := tree.Get(at)
		if !d.claims || pod == nil || standin.Sub(pod, "metadata")["deletionTimestamp"] == nil {
			continue
		}
		seen := standin.Sub(pod, "metadata", "annotations")
		switch {
		case !driver:
			o.wedged.Store(true)
			tree.Put(at, pod)
		case seen["seen"] == nil:
			seen["seen"] = "true"
		default:
			tree.Delete(at)
			o.control(tree, tree.Get(nodes+o.name))
		}
	}
}

// The kubelet ends a pod with a claim only if the driver of the claim runs.
func TestGPUCluster_DriverLeavesLast(t *testing.T) {
	w := newWorld(t)
	o := w.addGPUCluster("n1")
	w.budget(1)
	w.start("n1")
	var during standin.Object
	var left []string
	w.dcm["n1"].Run = func() {
		during = w.labels("n1")
		for name := range gpuCluster {
			if w.api.Get(pods+name+"-n1") != nil {
				left = append(left, name)
			}
		}
	}
	before := w.labels("n1")
	w.label("n1", "all-balanced")
	w.until("success", func() bool { return o.wedged.Load() || w.state("n1") == "success" && w.held() == 0 })
	if o.wedged.Load() {
		t.Fatalf("the DRA driver left before a pod with a claim: %s", w.condition("n1"))
	}
	for label := range before {
		if strings.HasPrefix(label, deploy) && during[label] != vendor.Paused {
			t.Errorf("label %s was %v during the change", label, during[label])
		}
		if after := w.labels("n1")[label]; after != before[label] {
			t.Errorf("label %s is %v, want %v", label, after, before[label])
		}
	}
	if left != nil {
		t.Errorf("pods during the change: %q", left)
	}
	if n := w.dcm["n1"].Partitions(); n != 32 {
		t.Errorf("%d instances, want 32", n)
	}
}
