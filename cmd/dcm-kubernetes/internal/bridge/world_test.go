package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/bridge"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/desired"
	"dcm/cmd/dcm-kubernetes/internal/feature"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

const (
	nodes  = "v1/nodes/"
	pods   = "v1/namespaces/default/pods/"
	leases = "coordination.k8s.io/v1/namespaces/dcm/leases/"
	events = "events.k8s.io/v1/namespaces/default/events"

	text = `{"gpu-config-profiles": {
		"whole": {"profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1"}]},
		"small": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1"}]},
		"near":  {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS4"}]}}}`
)

// world is a cluster of nodes with a DaemonSet of the device plugin. Functions that run after each
// change simulate its controller and the kubelets.
type world struct {
	t     *testing.T
	api   *standin.API
	dcm   map[string]*standin.DCM
	dir   string
	times sequence.Times
	log   io.Writer

	blind bool // files cannot be watched

	h100     map[string]bool // nodes of NVIDIA
	restarts int             // of their device plugins
}

// unwatched is a ConfigMap on a host without inotify instances.
type unwatched struct{ desired.Dir }

func (unwatched) Watch(context.Context, func()) error { return errors.New("too many open files") }

func newWorld(t *testing.T, names ...string) *world {
	w := &world{
		t: t, api: standin.NewAPI(t), dcm: make(map[string]*standin.DCM), dir: t.TempDir(), log: io.Discard, h100: make(map[string]bool),
		times: sequence.Times{Drain: time.Hour, Refresh: time.Hour, Retry: time.Hour, Look: 5 * time.Millisecond, Budget: 5 * time.Millisecond, Reread: 5 * time.Millisecond, Lease: time.Hour},
	}
	if testing.Verbose() {
		w.log = t.Output()
	}
	w.config(text)
	for _, name := range names {
		w.add(name)
	}
	w.api.After = w.follow
	return w
}

// add creates a node with a pod of the device plugin and one that uses a GPU.
func (w *world) add(name string) {
	w.dcm[name] = standin.NewDCM()
	node := standin.Object{"kind": "Node", "apiVersion": "v1", "metadata": standin.Object{"name": name, "uid": name},
		"spec": standin.Object{}, "status": standin.Object{"allocatable": standin.Object{"amd.com/gpu": "8", "cpu": "96"}}}
	w.api.Put(nodes+name, node)
	w.api.Put(pods+"plugin-"+name, plugin(name, "0"))
	w.api.Put(pods+"job-"+name, standin.Object{"metadata": standin.Object{"namespace": "default", "name": "job-" + name, "uid": "job-" + name,
		"ownerReferences": []any{standin.Object{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "job", "uid": "rs", "controller": true}}},
		"spec": standin.Object{"nodeName": name, "containers": []any{standin.Object{"name": "c", "resources": standin.Object{"limits": standin.Object{"amd.com/gpu": "1"}}}}}})
	w.api.Put(pods+"web-"+name, standin.Object{"metadata": standin.Object{"namespace": "default", "name": "web-" + name, "uid": "web-" + name},
		"spec": standin.Object{"nodeName": name, "containers": []any{standin.Object{"name": "c"}}}})
}

func plugin(node, uid string) standin.Object {
	return standin.Object{
		"metadata": standin.Object{"namespace": "default", "name": "plugin-" + node, "uid": uid,
			"ownerReferences": []any{standin.Object{"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "plugin", "uid": "ds", "controller": true}}},
		"spec": standin.Object{"nodeName": node,
			"volumes":    []any{standin.Object{"name": "v", "hostPath": standin.Object{"path": "/var/lib/kubelet/device-plugins"}}},
			"containers": []any{standin.Object{"name": "c", "image": "docker.io/rocm/k8s-device-plugin:1.31"}}},
		"status": standin.Object{"phase": "Running", "conditions": []any{standin.Object{"type": "Ready", "status": "True"}}},
	}
}

// follow simulates the DaemonSet's controller and the kubelet. Without the taint the device plugin
// runs, and reports the number of partitions when it starts.
func (w *world) follow(tree standin.Tree, node standin.Object) {
	name := standin.Sub(node, "metadata")["name"].(string)
	if w.h100[name] {
		w.followH100(tree, node)
		return
	}
	if taints, _ := standin.Sub(node, "spec")["taints"].([]any); len(taints) > 0 || tree.Get(pods+"plugin-"+name) != nil {
		return
	}
	tree.Put(pods+"plugin-"+name, plugin(name, fmt.Sprint(time.Now().UnixNano())))
	standin.Sub(node, "status", "allocatable")["amd.com/gpu"] = fmt.Sprint(w.dcm[name].Partitions())
	tree.Put(nodes+name, node)
}

func (w *world) config(text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "new"), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.dir, "new"), filepath.Join(w.dir, "config.json")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) budget(n int) {
	for i := range n {
		name := fmt.Sprintf("budget-%d", i)
		w.api.Put(leases+name, standin.Object{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
			"metadata": standin.Object{"name": name, "namespace": "dcm", "labels": standin.Object{cluster.Budget: ""}}, "spec": standin.Object{}})
	}
}

// pool sets the pool of a node or Lease.
func (w *world) pool(kind, path, pool string) {
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(path)
		if o["kind"] != kind {
			w.t.Errorf("%s is no %s", path, kind)
		}
		standin.Sub(o, "metadata", "labels")[cluster.Budget] = pool
		tree.Put(path, o)
	})
}

// label selects a profile.
func (w *world) label(node, profile string) {
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + node)
		standin.Sub(o, "metadata", "labels")[w.vendor(node).Profile] = profile
		tree.Put(nodes+node, o)
	})
}

// start runs an agent until the test ends, or the returned function is called.
func (w *world) start(node string) (stop func()) {
	w.t.Helper()
	socket := filepath.Join(w.t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	go w.dcm[node].Serve(l)
	client, err := cluster.New(&rest.Config{Host: w.api.URL, QPS: -1}, "dcm")
	if err != nil {
		w.t.Fatal(err)
	}
	b := &bridge.Bridge{
		Node: node, Self: cluster.Self{Namespace: "dcm", Name: "self"}, Cluster: client, Host: agent.Client{Socket: socket},
		Config: desired.Dir(w.dir), Features: feature.File(filepath.Join(w.t.TempDir(), "dcm")), Times: w.times,
		Log: slog.New(slog.NewTextHandler(w.log, nil)).With("node", node),
	}
	if w.blind {
		b.Config = unwatched{desired.Dir(w.dir)}
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		l.Close()
	}
	w.t.Cleanup(stop)
	return stop
}

// until waits for a condition; the deadline is that of the test.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for {
		changed := w.api.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-w.t.Context().Done():
			w.t.Fatalf("timed out: %s", what)
		}
	}
}

func (w *world) vendor(node string) *vendor.Vendor {
	if w.h100[node] {
		return vendor.NVIDIA
	}
	return vendor.AMD
}

// state returns the state label; "" during an operation.
func (w *world) state(node string) string {
	o := w.api.Get(nodes + node)
	if standin.Sub(o, "metadata", "annotations")[cluster.Operation] != nil {
		return ""
	}
	state, _ := standin.Sub(o, "metadata", "labels")[w.vendor(node).State].(string)
	return state
}

func (w *world) cordoned(node string) bool {
	return standin.Sub(w.api.Get(nodes+node), "spec")["unschedulable"] == true
}

// stateLabel returns the state label, also during an operation.
func (w *world) stateLabel(node string) string {
	state, _ := standin.Sub(w.api.Get(nodes+node), "metadata", "labels")[w.vendor(node).State].(string)
	return state
}

// holders sets the holders of the budget's Leases.
func (w *world) holders(all ...string) {
	w.api.Do(func(tree standin.Tree) {
		for i, who := range all {
			at := fmt.Sprintf("%sbudget-%d", leases, i)
			l := tree.Get(at)
			standin.Sub(l, "spec")["holderIdentity"] = who
			tree.Put(at, l)
			name, id, _ := strings.Cut(who, "/")
			op, err := json.Marshal(sequence.Operation{ID: id, Phase: sequence.Draining})
			if err != nil {
				w.t.Error(err)
			}
			tree.Put(nodes+name, standin.Object{"kind": "Node", "apiVersion": "v1", "metadata": standin.Object{"name": name, "uid": name,
				"annotations": standin.Object{cluster.Operation: string(op)}}, "spec": standin.Object{}, "status": standin.Object{}})
		}
	})
}

func (w *world) annotate(node, key, value string) {
	w.api.Do(func(tree standin.Tree) {
		o := tree.Get(nodes + node)
		standin.Sub(o, "metadata", "annotations")[key] = value
		tree.Put(nodes+node, o)
	})
}

func (w *world) phase(node string) sequence.Phase {
	text, _ := standin.Sub(w.api.Get(nodes+node), "metadata", "annotations")[cluster.Operation].(string)
	var op sequence.Operation
	if text != "" {
		if err := json.Unmarshal([]byte(text), &op); err != nil {
			w.t.Fatal(err)
		}
	}
	return op.Phase
}

// condition returns "status reason: message".
func (w *world) condition(node string) string {
	all, _ := standin.Sub(w.api.Get(nodes+node), "status")["conditions"].([]any)
	for _, c := range all {
		if c := c.(standin.Object); c["type"] == cluster.ConditionType {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

// held returns the number of Leases with a holder.
func (w *world) held() int {
	n := 0
	for i := 0; ; i++ {
		l := w.api.Get(fmt.Sprintf("%sbudget-%d", leases, i))
		if l == nil {
			return n
		}
		if standin.Sub(l, "spec")["holderIdentity"] != nil {
			n++
		}
	}
}

// atRest returns the problems of a node after a change.
func (w *world) atRest(node string) (wrong []string) {
	spec := standin.Sub(w.api.Get(nodes+node), "spec")
	if spec["unschedulable"] != nil {
		wrong = append(wrong, "cordoned")
	}
	if spec["taints"] != nil {
		wrong = append(wrong, "tainted")
	}
	if w.held() > 0 {
		wrong = append(wrong, "a lease is held")
	}
	if w.api.Get(pods+"plugin-"+node) == nil {
		wrong = append(wrong, "no plugin")
	}
	if w.api.Get(pods+"web-"+node) == nil {
		wrong = append(wrong, "a pod without GPUs is gone")
	}
	return wrong
}

func (w *world) count(request string) int {
	return len(slices.DeleteFunc(w.api.Requests(), func(r string) bool { return !strings.HasPrefix(r, request) }))
}
