package real_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// TestHelm runs the commands of packaging/kubernetes/README.md with the real Helm, API server, DaemonSet
// controller and garbage collector: it installs the chart, changes nodes, and removes the release.
func TestHelm(t *testing.T) {
	w := bareWorld(t, extra{controllers: []string{"garbage-collector-controller", "namespace-controller"}})
	made(t, "helm")
	w.plugin()
	two := []string{"n1", "n2"}
	for _, name := range two {
		w.host(name)
		w.mark(name, "deviceconfig.org/agent", "true")
	}
	kubelets := &kubelets{world: w, top: checkout(t), program: w.program()}
	w.begin = kubelets.start
	w.config("config.json", text)
	w.play()
	w.until("the plugin", two, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" })
	before := w.installed()
	home, commands := t.TempDir(), walk(t, "Helm")
	if len(commands) != 2 {
		t.Fatalf("commands of the README: %q", commands)
	}

	kubelets.shell(home, commands[0])
	kubelets.shell(home, "kubectl -n dcm rollout status daemonset/dcm-kubernetes --timeout=10m")
	kubelets.shell(home, "helm upgrade --namespace dcm dcm dist/dcm-kubernetes-*.tgz --reuse-values --set budget=2,pools.a=1 && helm list --namespace dcm")
	for _, name := range two {
		w.job("job-"+name, name)
		w.label(name, "small")
	}
	w.until("success", two, applied("small", "success"))
	w.free()
	t.Run("a smaller budget", func(t *testing.T) {
		kubelets.shell(home, "helm upgrade --namespace dcm dcm dist/dcm-kubernetes-*.tgz --reuse-values --set budget=1")
		w.mu.Lock()
		w.now, w.most = 0, 0
		w.mu.Unlock()
		for _, name := range two {
			w.label(name, "whole")
		}
		w.until("success", two, applied("whole", "success"))
		for _, name := range two {
			w.label(name, "small")
		}
		w.until("success", two, applied("small", "success"))
		w.free()
		if w.most != 1 {
			t.Errorf("%d nodes concurrently", w.most)
		}
	})
	for _, name := range two {
		if wrong := w.wrong(name); wrong != nil || w.divided(name) != 64 {
			t.Errorf("%s: %q, %d partitions", name, wrong, w.divided(name))
		}
		w.mark(name, vendor.AMD.Profile, nil)
	}
	w.until("rest", two, func(o object) bool { return strings.HasPrefix(condition(o), "Unknown NoProfile: ") })

	removal := strings.SplitAfter(commands[1], "\n")
	kubelets.shell(home, removal[0])
	kept := []string{"leases dcm-budget-1", "leases dcm-budget-2", "leases dcm-budget-a-1", "roles dcm-budget",
		"validatingadmissionpolicies dcm-kubernetes", "validatingadmissionpolicybindings dcm-kubernetes"}
	w.awaitInstalled(t, append(slices.Clone(before), kept...))
	kubelets.shell(home, removal[1])
	w.awaitInstalled(t, before)
}

// installed returns the objects that a release can have, sorted.
func (w *world) installed() (names []string) {
	w.t.Helper()
	for _, at := range []string{"/api/v1/namespaces/dcm/pods", "/api/v1/namespaces/dcm/serviceaccounts", "/api/v1/namespaces/dcm/secrets",
		"/apis/apps/v1/namespaces/dcm/daemonsets", "/apis/coordination.k8s.io/v1/namespaces/dcm-budget/leases",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/dcm-budget/roles", "/apis/rbac.authorization.k8s.io/v1/namespaces/dcm-budget/rolebindings",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"} {
		items, _ := w.do(http.MethodGet, at, nil)["items"].([]any)
		for _, o := range items {
			names = append(names, fmt.Sprintf("%s %v", filepath.Base(at), sub(o.(object), "metadata")["name"]))
		}
	}
	slices.Sort(names)
	return names
}

// awaitInstalled waits until exactly these objects are left.
func (w *world) awaitInstalled(t *testing.T, want []string) {
	t.Helper()
	w.await(t, want, w.installed)
}

// await polls until get returns these names.
func (w *world) await(t *testing.T, want []string, get func() []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	for got := get(); !slices.Equal(slices.Sorted(slices.Values(got)), want); got = get() {
		select {
		case <-w.ctx.Done():
			t.Fatalf("found %q, want %q", got, want)
		case <-time.After(200 * time.Millisecond): // these objects are not watched here
		}
	}
}
