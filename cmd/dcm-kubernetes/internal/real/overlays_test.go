package real_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// The API server accepts the rendered overlays. The permissions of the account suffice for the agent,
// and only on the node of its token.
func TestOverlays(t *testing.T) {
	for overlay, namespace := range map[string]string{"plain": "dcm", "amd-gpu-operator": "kube-amd-gpu", "nvidia-gpu-operator": "gpu-operator"} {
		t.Run(overlay, func(t *testing.T) {
			w := bareWorld(t, extra{})
			if overlay != "plain" { // the operator created its namespace
				w.do(http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": namespace}})
			}
			w.install(overlay)
			for _, name := range []string{"n1", "n2"} {
				w.join(name, func() client.Account { return client.Account{} })
			}
			at := "/api/v1/namespaces/" + namespace + "/pods"
			w.do(http.MethodPost, at, object{"metadata": object{"name": "a"}, "spec": object{"nodeName": "n1", "serviceAccountName": "dcm-kubernetes",
				"automountServiceAccountToken": false, "containers": []any{object{"name": "c", "image": "none"}}}})
			token := w.bound(namespace, "a")
			try := func(method, path, kind string, body any) (int, any) {
				code, answer, err := w.as(token, method, path, kind, body)
				if err != nil {
					t.Fatal(err)
				}
				return code, answer["message"]
			}
			state := object{"metadata": object{"labels": object{vendor.AMD.State: "failure"}}}
			// A policy takes effect some time after its creation.
			var why any
			for code := 200; code != 403; code, why = try(http.MethodPatch, nodes+"/n2", merge, state) {
				select {
				case <-w.ctx.Done():
					t.Fatalf("the policy has no effect: %v", why)
				case <-time.After(100 * time.Millisecond): // no event reports that
				}
			}
			t.Log(why)
			lease := w.do(http.MethodGet, leases+"/dcm-budget-1", nil)
			lease["spec"] = object{"holderIdentity": "n1/x"}
			for _, may := range []struct {
				method, path, kind string
				body               any
			}{
				{http.MethodGet, nodes + "/n1", "", nil},
				{http.MethodPatch, nodes + "/n1", merge, state},
				{http.MethodPatch, nodes + "/n1/status", merge, object{"status": object{}}},
				{http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName=n1", "", nil},
				{http.MethodGet, slicesOf + "?fieldSelector=spec.nodeName=n1,spec.driver=gpu.amd.com", "", nil},
				{http.MethodGet, leases + "?labelSelector=" + cluster.Budget, "", nil},
				{http.MethodPut, leases + "/dcm-budget-1", "", lease},
				{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events", "", event("n1")},
			} {
				if code, why := try(may.method, may.path, may.kind, may.body); code > 201 {
					t.Errorf("%s %s: %d %v", may.method, may.path, code, why)
				}
			}
			lease = w.do(http.MethodGet, leases+"/dcm-budget-1", nil)
			lease["spec"] = object{"holderIdentity": "n2/x"}
			if code, why := try(http.MethodPut, leases+"/dcm-budget-1", "", lease); code != 403 {
				t.Errorf("a lease for n2: %d %v", code, why)
			}
			w.daemonSet(t, overlay, namespace)
		})
	}
}

// daemonSet installs the DaemonSet of an overlay in a cluster in which most nodes have no dcm, and
// rolls out new images.
func (w *world) daemonSet(t *testing.T, overlay, namespace string) {
	t.Helper()
	found := "feature.node.kubernetes.io/amd-gpu" // set by the operator on nodes with GPUs
	if overlay == "nvidia-gpu-operator" {
		found = "nvidia.com/gpu.present"
	}
	w.lacks = map[string]bool{"n2": true, "n3": true, "n4": true}
	for _, name := range []string{"n3", "n4"} {
		w.join(name, func() client.Account { return client.Account{} })
	}
	for _, name := range []string{"n1", "n3", "n4"} {
		w.do(http.MethodPatch, nodes+"/"+name, object{"metadata": object{"labels": object{found: "true"}}})
	}
	w.play()
	w.kubectl(t, "label", "node", "n1", "deviceconfig.org/agent=true")
	set := w.rendered(overlay, "DaemonSet")
	w.do(http.MethodPost, "/apis/apps/v1/namespaces/"+namespace+"/daemonsets", set)
	rolledOut := func(image string) {
		t.Helper()
		w.kubectl(t, "-n", namespace, "rollout", "status", "--timeout=10m", "daemonset/dcm-kubernetes")
		w.agentPods(t, namespace, "n1 Running "+image)
	}
	rolledOut("dcm-kubernetes:latest")
	image := func(tag string) {
		t.Helper()
		w.kubectl(t, "-n", namespace, "set", "image", "daemonset/dcm-kubernetes", "dcm-kubernetes=dcm-kubernetes:"+tag)
	}
	image("2")
	rolledOut("dcm-kubernetes:2")
	// A node with the label but without dcm does not block the rollout on the others.
	w.kubectl(t, "label", "node", "n4", "deviceconfig.org/agent=true")
	w.agentPods(t, namespace, "n1 Running dcm-kubernetes:2, n4 Pending dcm-kubernetes:2")
	image("3")
	w.agentPods(t, namespace, "n1 Running dcm-kubernetes:3, n4 Pending dcm-kubernetes:3")
}

// agentPods waits for the DaemonSet's pods, each as node, phase and image.
func (w *world) agentPods(t *testing.T, namespace, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
	defer cancel()
	for {
		var all []string
		items, _ := w.do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods?labelSelector=app.kubernetes.io/name=dcm-kubernetes", nil)["items"].([]any)
		for _, p := range items {
			p := p.(object)
			container, _ := sub(p, "spec")["containers"].([]any)[0].(object)
			all = append(all, fmt.Sprintf("%s %v %v", node(p), sub(p, "status")["phase"], container["image"]))
		}
		slices.Sort(all)
		if strings.Join(all, ", ") == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("pods are %q, want %s", all, want)
		case <-time.After(100 * time.Millisecond): // pods are not watched here
		}
	}
}

// kubectl runs the real kubectl as the administrator.
func (w *world) kubectl(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(w.ctx, filepath.Join(cache(), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(w.dir, "kubeconfig"))
	out, err := cmd.CombinedOutput()
	t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Fatal(err)
	}
}
