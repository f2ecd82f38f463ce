package real_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	client "dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/rendered"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

const (
	nodes  = "/api/v1/nodes"
	pods   = "/api/v1/namespaces/default/pods"
	agents = "/api/v1/namespaces/dcm/pods"
	leases = "/apis/coordination.k8s.io/v1/namespaces/dcm-budget/leases"

	text = `{"gpu-config-profiles": {
		"whole": {"profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1"}]},
		"small": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1"}]}}}`
)

// limit is longer than any of these tests takes on a busy machine.
const limit = time.Hour

// world is a control plane with nodes whose kubelets are simulated.
type world struct {
	*control
	ctx     context.Context
	token   map[string]string // of the agent, by node
	dcm     map[string]*standin.DCM
	account map[string]func() client.Account

	begin func(pod object) (end func()) // runs an agent's pod; nil for none
	lacks map[string]bool               // nodes without dcm: an agent's pod stays in ContainerCreating
	hold  map[string]chan struct{}      // device plugin and driver count again when the node's channel is closed

	mu      sync.Mutex
	changed chan struct{}
	driven  map[string]bool   // nodes whose DRA driver runs
	node    map[string]object // as last received
	now     int               // number of nodes that change
	most    int               // maximum so far
}

// bareWorld returns a world with a namespace and the kubelets, without dcm.
func bareWorld(t *testing.T, more extra) *world {
	if os.Getenv("DCM_KUBERNETES") == "" {
		t.Skip("run by make test-kubernetes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	w := &world{control: newControl(t, more), ctx: ctx, token: make(map[string]string), dcm: make(map[string]*standin.DCM),
		account: make(map[string]func() client.Account), changed: make(chan struct{}), driven: make(map[string]bool), node: make(map[string]object), hold: make(map[string]chan struct{})}
	w.do(http.MethodPost, "/apis/scheduling.k8s.io/v1/priorityclasses", object{"metadata": object{"name": "unused"}, "value": 1})
	if err := os.MkdirAll(filepath.Join(w.dir, "config"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	go w.watch(w.ctx, nodes, w.see)
	return w
}

// newWorld returns a world with everything but the agents installed, by the overlay for a cluster
// without AMD's operator.
func newWorld(t *testing.T) *world { return newWorldWith(t, extra{}) }

// newWorldWith is newWorld with more in its control plane.
func newWorldWith(t *testing.T, more extra) *world {
	w := bareWorld(t, more)
	w.config("config.json", text)
	w.install("plain")
	return w
}

// config replaces the mounted ConfigMap atomically.
func (w *world) config(name, text string) {
	write(w.t, filepath.Join(w.dir, name), text)
	if err := os.Rename(filepath.Join(w.dir, name), filepath.Join(w.dir, "config", name)); err != nil {
		w.t.Error(err)
	}
}

// manifests is the directory of the shipped manifests.
const manifests = "../../../../packaging/kubernetes"

// install creates the rendered objects of the cluster and of an overlay, except the DaemonSet, since most
// tests start agents themselves.
func (w *world) install(overlay string) {
	w.t.Helper()
	for _, o := range append(w.objects("cluster"), w.objects(filepath.Join("overlays", overlay))...) {
		if o["kind"] != "DaemonSet" {
			w.do(http.MethodPost, place(o), o)
		}
	}
}

func (w *world) objects(of string) []object {
	w.t.Helper()
	objects, err := rendered.Objects(filepath.Join(manifests, of))
	if err != nil {
		w.t.Fatal(err)
	}
	return objects
}

// rendered returns the object of a kind.
func (w *world) rendered(overlay, kind string) object {
	w.t.Helper()
	for _, o := range w.objects(filepath.Join("overlays", overlay)) {
		if o["kind"] == kind {
			return o
		}
	}
	w.t.Fatalf("%s has no %s", overlay, kind)
	return nil
}

// place returns the path for the creation of an object.
func place(o object) string {
	at := "/api/" + fmt.Sprint(o["apiVersion"])
	if strings.Contains(at, ".") {
		at = "/apis/" + fmt.Sprint(o["apiVersion"])
	}
	if namespace := sub(o, "metadata")["namespace"]; namespace != nil {
		at += fmt.Sprintf("/namespaces/%v", namespace)
	}
	kind := strings.ToLower(fmt.Sprint(o["kind"]))
	if stem, ok := strings.CutSuffix(kind, "y"); ok {
		return at + "/" + stem + "ies"
	}
	return at + "/" + kind + "s"
}

// budget creates Leases.
func (w *world) budget(n int) {
	for i := range n {
		w.do(http.MethodPost, leases, object{"metadata": object{"name": fmt.Sprintf("dcm-budget-%d", i+1), "labels": object{cluster.Budget: ""}}})
	}
}

// add creates a node with a simulated dcm and an agent's pod.
func (w *world) add(name string) {
	w.host(name)
	w.enlist(name)
}

// host creates a node with a simulated dcm.
func (w *world) host(name string) { w.simulate(name, standin.NewDCM()) }

// simulate creates a node with a simulated dcm of either vendor.
func (w *world) simulate(name string, dcm *standin.DCM) {
	w.mu.Lock()
	w.dcm[name] = dcm
	w.mu.Unlock()
	w.join(name, func() client.Account {
		account, err := dcm.Account(w.ctx)
		if err != nil {
			w.t.Error(err)
		}
		return account
	})
}

// join creates a node whose GPUs are those of an account.
func (w *world) join(name string, account func() client.Account) {
	w.mu.Lock()
	w.account[name] = account
	w.mu.Unlock()
	w.do(http.MethodPost, nodes, object{"metadata": object{"name": name, "labels": object{"gpu": "true", "kubernetes.io/os": "linux"}}})
	w.do(http.MethodPatch, nodes+"/"+name+"/status", object{"status": object{
		"capacity": object{"cpu": "96", "memory": "1Ti", "pods": "110"}, "allocatable": object{"cpu": "96", "memory": "1Ti", "pods": "110"},
		"conditions": []any{object{"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": now(), "lastTransitionTime": now()}}}})
}

// enlist creates the agent's pod on a node, with a token that is bound to it.
func (w *world) enlist(name string) {
	w.do(http.MethodPost, agents, object{"metadata": object{"name": "agent-" + name},
		"spec": object{"nodeName": name, "serviceAccountName": "dcm-kubernetes", "automountServiceAccountToken": false,
			"tolerations": []any{object{"operator": "Exists"}}, "containers": []any{object{"name": "c", "image": "none"}}}})
	token := w.bound("dcm", "agent-"+name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token[name] = token
}

// bound returns a token of the agents' account that is bound to a pod.
func (w *world) bound(namespace, pod string) string {
	at := "/api/v1/namespaces/" + namespace
	made := w.do(http.MethodGet, at+"/pods/"+pod, nil)
	answer := w.do(http.MethodPost, at+"/serviceaccounts/dcm-kubernetes/token", object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": object{"boundObjectRef": object{"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": sub(made, "metadata")["uid"]}}})
	token, _ := sub(answer, "status")["token"].(string)
	return token
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// job creates a pod that uses GPUs and has a controller.
func (w *world) job(name, node string) { w.jobOn(name, node, "amd.com/gpu") }

// jobOn is job for a resource.
func (w *world) jobOn(name, node, resource string) {
	w.do(http.MethodPost, pods, object{"metadata": object{"name": name, "labels": object{"app": "job"},
		"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "job", "uid": "job", "controller": true}}},
		"spec": object{"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": []any{object{"name": "c", "image": "none",
			"resources": object{"limits": object{resource: "1"}}}}}})
}

// claimed creates pods that have GPUs by DRA: through a shared claim, and through the claim that a
// scheduler creates for an extended resource.
func (w *world) claimed(node string) (names []string) {
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	w.do(http.MethodPost, claims, object{"metadata": object{"name": "shared"},
		"spec": object{"devices": object{"requests": []any{object{"name": "r", "exactly": object{"deviceClassName": "gpu.amd.com"}}}}}})
	w.do(http.MethodPatch, claims+"/shared/status", object{"status": object{"allocation": object{"devices": object{
		"results": []any{object{"request": "r", "driver": "gpu.amd.com", "pool": node, "device": "gpu-0-128"}}}}}})
	make := func(name string, spec object) {
		names = append(names, name)
		spec["nodeName"], spec["terminationGracePeriodSeconds"] = node, 1
		w.do(http.MethodPost, pods, object{"metadata": object{"name": name,
			"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "job", "uid": "job", "controller": true}}}, "spec": spec})
	}
	for _, name := range []string{"named-1", "named-2"} {
		make(name, object{"resourceClaims": []any{object{"name": "gpu", "resourceClaimName": "shared"}},
			"containers": []any{object{"name": "c", "image": "none", "resources": object{"claims": []any{object{"name": "gpu"}}}}}})
	}
	const extended = "deviceclass.resource.kubernetes.io/gpu.amd.com"
	make("extended", object{"containers": []any{object{"name": "c", "image": "none", "resources": object{"limits": object{extended: "1"}}}}})
	w.do(http.MethodPatch, pods+"/extended/status", object{"status": object{"extendedResourceClaimStatus": object{"resourceClaimName": "shared",
		"requestMappings": []any{object{"containerName": "c", "resourceName": extended, "requestName": "r"}}}}})
	return names
}

// plugin creates the DaemonSet of the device plugin.
func (w *world) plugin() {
	labels := object{"app": "plugin"}
	w.do(http.MethodPost, "/apis/apps/v1/namespaces/default/daemonsets", object{"metadata": object{"name": "plugin"}, "spec": object{
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": object{
			"nodeSelector": object{"gpu": "true"}, "terminationGracePeriodSeconds": 1,
			"volumes":    []any{object{"name": "v", "hostPath": object{"path": "/var/lib/kubelet/device-plugins"}}},
			"containers": []any{object{"name": "c", "image": "rocm/k8s-device-plugin:1.31"}}}}}})
}

// driver creates the DaemonSet of AMD's DRA driver, which tolerates the taint.
func (w *world) driver() {
	labels := object{"app": "driver"}
	w.do(http.MethodPost, "/apis/apps/v1/namespaces/default/daemonsets", object{"metadata": object{"name": "driver"}, "spec": object{
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": object{
			"nodeSelector": object{"dra": "true"}, "terminationGracePeriodSeconds": 1, "tolerations": []any{object{"operator": "Exists"}},
			"containers": []any{object{"name": "c", "image": "rocm/k8s-gpu-dra-driver:v1"}}}}}})
}

// keep prevents device plugin and driver from counting until the returned function is called.
func (w *world) keep(who string) (let func()) {
	hold := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold[who] = hold
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hold, who)
		close(hold)
	}
}

// label selects a profile.
func (w *world) label(node, profile string) {
	w.do(http.MethodPatch, nodes+"/"+node, object{"metadata": object{"labels": object{vendor.AMD.Profile: profile}}})
}

// see stores received nodes, and counts how many change concurrently.
func (w *world) see(kind string, o object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := fmt.Sprint(sub(o, "metadata")["name"])
	w.now += changing(o) - changing(w.node[name])
	w.node[name] = o
	w.most = max(w.most, w.now)
	close(w.changed)
	w.changed = make(chan struct{})
}

// changing returns 1 for a node that holds a Lease.
func changing(node object) int {
	if p := phase(node); p == "" || p == sequence.Waiting {
		return 0
	}
	return 1
}

func phase(node object) sequence.Phase {
	text, _ := sub(node, "metadata", "annotations")[cluster.Operation].(string)
	var op sequence.Operation
	if text != "" && json.Unmarshal([]byte(text), &op) != nil {
		return "unreadable"
	}
	return op.Phase
}

// until waits until each node has been in a state that ok accepts.
func (w *world) until(what string, names []string, ok func(node object) bool) {
	w.t.Helper()
	for {
		w.mu.Lock()
		changed := w.changed
		for len(names) > 0 && w.node[names[0]] != nil && ok(w.node[names[0]]) {
			names = names[1:]
		}
		w.mu.Unlock()
		if len(names) == 0 {
			return
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			w.t.Fatalf("timed out on %s: %s", names[0], what)
		}
	}
}

// applied reports whether a change to a profile has ended with a state.
func applied(profile, state string) func(object) bool { return appliedOf(vendor.AMD, profile, state) }

// appliedOf is applied for a vendor. The state is the agent's word.
func appliedOf(v *vendor.Vendor, profile, state string) func(object) bool {
	return func(o object) bool {
		text, _ := sub(o, "metadata", "annotations")[cluster.Last].(string)
		var last sequence.Last
		return text != "" && json.Unmarshal([]byte(text), &last) == nil && last.Profile == profile && last.State == state && phase(o) == "" &&
			sub(o, "metadata", "labels")[v.State] == v.Word(state)
	}
}

// wrong returns the problems of a node without an operation.
func (w *world) wrong(name string) (out []string) {
	o := w.do(http.MethodGet, nodes+"/"+name, nil)
	spec := sub(o, "spec")
	if spec["unschedulable"] == true {
		out = append(out, "cordoned")
	}
	taints, _ := spec["taints"].([]any)
	for _, t := range taints {
		if key := t.(object)["key"]; key == vendor.AMD.Taint.Key || key == vendor.NVIDIA.Taint.Key {
			out = append(out, "tainted")
		}
	}
	for label, value := range sub(o, "metadata", "labels") {
		if value == vendor.Paused {
			out = append(out, label+" is paused")
		}
	}
	for resource, n := range w.resources(name) {
		if got, want := sub(o, "status", "allocatable")[resource], fmt.Sprint(n); got != want {
			out = append(out, fmt.Sprintf("allocatable %s is %v of %s", resource, got, want))
		}
	}
	return out
}

// free waits until no Lease is held.
func (w *world) free() {
	w.t.Helper()
	for {
		held := 0
		items, _ := w.do(http.MethodGet, leases, nil)["items"].([]any)
		for _, l := range items {
			if sub(l.(object), "spec")["holderIdentity"] != nil {
				held++
			}
		}
		if held == 0 {
			return
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("%d leases are held", held)
		case <-time.After(100 * time.Millisecond): // Leases are not watched here
		}
	}
}

// socket serves the dcm of a node.
func (w *world) socket(name string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	go w.dcm[name].Serve(l)
	return path
}

// all calls do for each node, several concurrently.
func all(names []string, do func(name string)) {
	var wg sync.WaitGroup
	next := make(chan string)
	for range 16 {
		wg.Go(func() {
			for name := range next {
				do(name)
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
}
