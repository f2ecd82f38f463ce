package real_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

const rules = "/apis/resource.k8s.io/v1beta2/devicetaintrules"

// deviceConfig has configurations that differ in a few GPUs.
const deviceConfig = `version: v1
mig-configs:
  none:
  - devices: all
    mig-enabled: false
  two:
  - devices: [0, 1]
    mig-enabled: true
    mig-devices: {"3g.40gb": 2}
  - devices: [2, 3, 4, 5, 6, 7]
    mig-enabled: false
  three:
  - devices: [0, 1, 2]
    mig-enabled: true
    mig-devices: {"3g.40gb": 2}
  - devices: [3, 4, 5, 6, 7]
    mig-enabled: false
`

// amdConfig has profiles that differ in a few GPUs of AMD.
const amdConfig = `{"gpu-config-profiles": {
	"none": {"profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1"}]},
	"two": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1", "numGPUsAssigned": 2}, {"computePartition": "SPX", "memoryPartition": "NPS1"}]},
	"three": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1", "numGPUsAssigned": 3}, {"computePartition": "SPX", "memoryPartition": "NPS1"}]},
	"all": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1"}]}}}`

// devices is a world with a node of one vendor's DRA driver.
type devices struct {
	*world
	vendor *vendor.Vendor
	node   string
	gpus   []string // devices of the undivided GPUs 0, 1, 2 and 5
	part   string   // a device of GPU 0 when it is divided
	all    string   // a profile that changes all GPUs
}

// TestDevices changes a few GPUs of a node with a vendor's DRA driver, and an API server that has
// DeviceTaintRules. Pods with claims on the other GPUs stay.
func TestDevices(t *testing.T) {
	w := newWorldWith(t, extra{server: []string{"--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true", "--runtime-config=resource.k8s.io/v1beta2=true"}})
	w.config("config.yaml", deviceConfig)
	w.config("config.json", amdConfig)
	for _, name := range []string{"amd", "amd-other"} {
		w.add(name)
		w.mark(name, "dra", "true")
	}
	w.addH100("h100")
	w.addH100("h100-other")
	w.driver()
	w.migDriver()
	w.play()
	w.budget(1)
	program := w.program()
	for _, d := range []*devices{
		{world: w, vendor: vendor.NVIDIA, node: "h100", gpus: []string{"gpu-0", "gpu-1", "gpu-2", "gpu-5"}, part: "gpu-0-mig-1", all: "all-1g.10gb"},
		{world: w, vendor: vendor.AMD, node: "amd", gpus: []string{"gpu-0-128", "gpu-1-136", "gpu-2-144", "gpu-5-168"}, part: "gpu-0-129", all: "all"},
	} {
		t.Run(d.vendor.Name, func(t *testing.T) { d.change(t, program) })
	}
}

func (d *devices) change(t *testing.T, program string) {
	d.awaitDevices(t, d.gpus...)
	a := d.agent(program, d.node, d.socket(d.node), "-drain=1h", "-retry=5s")
	t.Run("policy", d.policy)

	d.job("first", d.gpus[0])
	d.job("stays", d.gpus[3])
	let := d.protect("first")
	d.choose("two")
	d.draining("first")
	d.during(t, d.gpus[0], d.gpus[1])
	a.kill()
	a.start()
	let()
	d.success(t, "two", "first")

	d.job("instance", d.part)
	d.job("second", d.gpus[2])
	let = d.protect("second")
	d.choose("three")
	d.draining("second")
	d.during(t, d.gpus[2])
	d.choose("two") // on the GPUs
	d.until("the end", []string{d.node}, func(o object) bool { return phase(o) == "" && appliedOf(d.vendor, "two", "success")(o) })
	d.free()
	d.awaitRules(t)
	d.choose("three")
	let()
	d.success(t, "three", "second")
	if d.present("instance") {
		d.choose("none")
		d.success(t, "none", "instance")
	} else {
		t.Error("the pod with a partition of another GPU was evicted")
	}

	// All GPUs change, so the whole node is drained.
	d.choose(d.all)
	d.success(t, d.all, "stays")
}

func (d *devices) choose(profile string) { d.mark(d.node, d.vendor.Profile, profile) }

// draining waits until a pod is in the way.
func (d *devices) draining(pod string) {
	d.until("the drain", []string{d.node}, func(o object) bool { return strings.Contains(condition(o), "waits for default/"+d.pod(pod)) })
}

// pod returns the name of a pod on the node.
func (d *devices) pod(name string) string { return d.node + "-" + name }

// migDriver creates the DaemonSet of NVIDIA's DRA driver, which tolerates all taints.
func (w *world) migDriver() {
	labels := object{"app": "driver", "of": "nvidia"}
	w.do(http.MethodPost, "/apis/apps/v1/namespaces/default/daemonsets", object{"metadata": object{"name": "mig-driver"}, "spec": object{
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": object{
			"nodeSelector": object{"nvidia.com/gpu.present": "true"}, "terminationGracePeriodSeconds": 1, "tolerations": []any{object{"operator": "Exists"}},
			"containers": []any{object{"name": "c", "image": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8"}}}}}})
}

// job creates a pod with a claim on a device.
func (d *devices) job(name, device string) {
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	name = d.pod(name)
	d.do(http.MethodPost, claims, object{"metadata": object{"name": name},
		"spec": object{"devices": object{"requests": []any{object{"name": "r", "exactly": object{"deviceClassName": d.vendor.Driver}}}}}})
	d.do(http.MethodPatch, claims+"/"+name+"/status", object{"status": object{"allocation": object{"devices": object{
		"results": []any{object{"request": "r", "driver": d.vendor.Driver, "pool": d.node, "device": device}}}}}})
	d.do(http.MethodPost, pods, object{"metadata": object{"name": name, "labels": object{"job": name},
		"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "job", "uid": "job", "controller": true}}},
		"spec": object{"nodeName": d.node, "terminationGracePeriodSeconds": 1, "resourceClaims": []any{object{"name": "gpu", "resourceClaimName": name}},
			"containers": []any{object{"name": "c", "image": "none", "resources": object{"claims": []any{object{"name": "gpu"}}}}}}})
}

// protect forbids the eviction of a pod until let is called.
func (d *devices) protect(name string) (let func()) {
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	d.do(http.MethodPost, budgets, object{"metadata": object{"name": d.pod(name)}, "spec": object{"minAvailable": 1, "selector": object{"matchLabels": object{"job": d.pod(name)}}}})
	return func() { d.do(http.MethodDelete, budgets+"/"+d.pod(name), nil) }
}

func (d *devices) present(name string) bool {
	code, _, _ := d.as("root", http.MethodGet, pods+"/"+d.pod(name), "", nil)
	return code == 200
}

// during checks the node while the pods of some devices are evicted.
func (d *devices) during(t *testing.T, want ...string) {
	t.Helper()
	d.awaitRules(t, want...)
	o := d.do(http.MethodGet, nodes+"/"+d.node, nil)
	if spec := sub(o, "spec"); phase(o) != sequence.Sparing || spec["unschedulable"] != nil || spec["taints"] != nil {
		t.Errorf("the node is in phase %q, and has %v", phase(o), spec)
	}
	for label, value := range sub(o, "metadata", "labels") {
		if value == vendor.Paused {
			t.Errorf("%s is paused", label)
		}
	}
}

// success waits for the end of a change that evicts one pod only.
func (d *devices) success(t *testing.T, profile, evicted string) {
	t.Helper()
	d.until("success", []string{d.node}, appliedOf(d.vendor, profile, "success"))
	d.free()
	d.awaitRules(t)
	if spec := sub(d.do(http.MethodGet, nodes+"/"+d.node, nil), "spec"); spec["unschedulable"] != nil || spec["taints"] != nil {
		t.Errorf("%s: the node has %v", profile, spec)
	}
	if stays := evicted != "stays"; d.present(evicted) || d.present("stays") != stays {
		t.Errorf("%s: the pod %s is there: %v, the pod on GPU 5: %v", profile, evicted, d.present(evicted), d.present("stays"))
	}
}

// awaitRules waits until exactly these devices of the node are tainted.
func (d *devices) awaitRules(t *testing.T, want ...string) {
	t.Helper()
	d.await(t, want, func() (got []string) {
		items, _ := d.do(http.MethodGet, rules, nil)["items"].([]any)
		for _, r := range items {
			spec := sub(r.(object), "spec")
			if sub(spec, "deviceSelector")["driver"] != d.vendor.Driver || sub(spec, "taint")["effect"] != "NoSchedule" {
				t.Errorf("a rule has %v", spec)
			}
			if s := sub(spec, "deviceSelector"); s["pool"] == d.node {
				got = append(got, fmt.Sprint(s["device"]))
			}
		}
		return got
	})
}

// awaitDevices waits until the node publishes some devices.
func (d *devices) awaitDevices(t *testing.T, want ...string) {
	t.Helper()
	d.await(t, want, func() (got []string) {
		_, slice, _ := d.as("root", http.MethodGet, slicesOf+"/"+d.node, "", nil)
		all, _ := sub(slice, "spec")["devices"].([]any)
		for _, one := range all {
			if name := fmt.Sprint(one.(object)["name"]); slices.Contains(want, name) {
				got = append(got, name)
			}
		}
		return got
	})
}

// policy tries rules with the token of the node's agent.
func (d *devices) policy(t *testing.T) {
	d.awaitPolicy(d.node)
	rule := func(name, pool, effect string) object {
		return object{"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": object{"name": name}, "spec": object{
			"deviceSelector": object{"driver": d.vendor.Driver, "pool": pool, "device": d.gpus[0]},
			"taint":          object{"key": "deviceconfig.org/changing", "value": "true", "effect": effect}}}
	}
	d.do(http.MethodPost, rules, rule("dcm-other.gpu-0", d.node+"-other", "NoSchedule"))
	for _, try := range []struct {
		what, method, path string
		body               any
		want               int
	}{
		{"a rule for its node", http.MethodPost, rules, rule("dcm-try", d.node, "NoSchedule"), 201},
		{"its end", http.MethodDelete, rules + "/dcm-try", nil, 200},
		{"a rule for another node", http.MethodPost, rules, rule("dcm-try", d.node+"-other", "NoSchedule"), 403},
		{"a rule that evicts", http.MethodPost, rules, rule("dcm-try", d.node, "NoExecute"), 403},
		{"a rule of another name", http.MethodPost, rules, rule("try", d.node, "NoSchedule"), 403},
		{"the end of another node's rule", http.MethodDelete, rules + "/dcm-other.gpu-0", nil, 403},
	} {
		code, answer, err := d.as(d.token[d.node], try.method, try.path, "", try.body)
		if err != nil || code != try.want {
			t.Errorf("%s: %d %v, want %d; %v", try.what, code, answer["message"], try.want, err)
		}
	}
	d.do(http.MethodDelete, rules+"/dcm-other.gpu-0", nil)
}
