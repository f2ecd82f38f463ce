package real_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
)

// What kustomize makes of an overlay is taken by the API server, and what the account has
// by it is enough, and bound to the token's node.
func TestOverlays(t *testing.T) {
	for overlay, namespace := range map[string]string{"plain": "dcm", "amd-gpu-operator": "kube-amd-gpu"} {
		t.Run(overlay, func(t *testing.T) {
			w := bareWorld(t)
			if overlay != "plain" { // the operator has its namespace already
				w.do(http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": namespace}})
			}
			w.install(overlay)
			for _, name := range []string{"n1", "n2"} {
				w.join(name, func() int { return 8 })
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
			state := object{"metadata": object{"labels": object{cluster.State: "failure"}}}
			// A policy is in force a while after it was made.
			var why any
			for code := 200; code != 403; code, why = try(http.MethodPatch, nodes+"/n2", merge, state) {
				select {
				case <-w.ctx.Done():
					t.Fatalf("the policy is not in force: %v", why)
				case <-time.After(100 * time.Millisecond): // nobody tells when it is
				}
			}
			t.Log(why)
			leases := "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
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

// daemonSet makes that of an overlay, and sees on which nodes its pods are.
func (w *world) daemonSet(t *testing.T, overlay, namespace string) {
	t.Helper()
	want := map[string]string{"plain": "[n1 n2]", "amd-gpu-operator": "[n2]"}[overlay]
	w.do(http.MethodPatch, nodes+"/n2", object{"metadata": object{"labels": object{"feature.node.kubernetes.io/amd-gpu": "true"}}})
	w.play()
	w.do(http.MethodPost, "/apis/apps/v1/namespaces/"+namespace+"/daemonsets", w.rendered(overlay, "DaemonSet"))
	for {
		var on []string
		items, _ := w.do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods?labelSelector=app.kubernetes.io/name=dcm-kubernetes", nil)["items"].([]any)
		for _, name := range []string{"n1", "n2"} {
			for _, p := range items {
				if node(p.(object)) == name && sub(p.(object), "status")["phase"] == "Running" {
					on = append(on, name)
				}
			}
		}
		if fmt.Sprint(on) == want {
			return
		}
		select {
		case <-w.ctx.Done():
			t.Fatalf("pods are on %s, want %s", on, want)
		case <-time.After(100 * time.Millisecond): // pods are not told of here
		}
	}
}
