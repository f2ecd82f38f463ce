package real_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

const (
	merge     = "application/merge-patch+json"
	strategic = "application/strategic-merge-patch+json"
)

// attempt is a change that is tried with an agent's token. refused is "" if the server allows it.
type attempt struct {
	what    string
	prepare func() // by the administrator
	method  string
	path    string
	kind    string
	body    any
	refused string // a part of the server's message
}

// policy tries, with an agent's token, changes that a compromised node could make to its own object
// and to the budget.
func (w *world) policy(t *testing.T) {
	const name, at = "tried", nodes + "/tried"
	w.host(name)
	w.enlist(name)
	dedicated := object{"key": "dedicated", "value": "team", "effect": "NoExecute"}
	own := object{"key": "amd-dcm", "value": "up", "effect": "NoSchedule"}
	w.do(http.MethodPatch, at, object{"spec": object{"taints": []any{dedicated}}})
	w.do(http.MethodPatch, at+"/status", object{"status": object{"addresses": []any{object{"type": "InternalIP", "address": "192.0.2.1"}}}})
	defer w.do(http.MethodDelete, at, nil)
	defer w.do(http.MethodDelete, agents+"/agent-"+name+"?gracePeriodSeconds=0", nil)

	set := func(where, key string, value any) object {
		return object{where: object{key: value}}
	}
	operation := func(phase sequence.Phase, wasCordoned bool) any {
		text, err := json.Marshal(sequence.Operation{ID: "a", Phase: phase, WasCordoned: wasCordoned})
		if err != nil {
			t.Fatal(err)
		}
		return object{cluster.Operation: string(text)}
	}
	node := func(operation, unschedulable any) object {
		return object{"metadata": object{"annotations": operation}, "spec": object{"unschedulable": unschedulable}}
	}
	status := func(key string, value any) object { return set("status", key, value) }
	condition := func(kind string) object {
		return status("conditions", []any{object{"type": kind, "status": "True", "reason": "Tried", "message": "tried", "lastHeartbeatTime": now()}})
	}
	cordon := func(yes any) func() {
		return func() { w.do(http.MethodPatch, at, set("spec", "unschedulable", yes)) }
	}
	for _, try := range []attempt{
		{what: "its own taint", body: set("spec", "taints", []any{dedicated, own})},
		{what: "its own taint away", body: set("spec", "taints", []any{dedicated})},
		{what: "another taint away", body: set("spec", "taints", nil), refused: "no taint but amd-dcm:NoSchedule"},
		{what: "another taint in the place of its own", body: set("spec", "taints", []any{own}), refused: "no taint but"},
		{what: "one more taint", body: set("spec", "taints", []any{dedicated, object{"key": "amd-dcm", "value": "up", "effect": "NoExecute"}}), refused: "no taint but"},
		{what: "another value of a taint", body: set("spec", "taints", []any{object{"key": "dedicated", "value": "mine", "effect": "NoExecute"}}), refused: "no taint but"},
		{what: "an owner", body: set("metadata", "ownerReferences", []any{object{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}}), refused: "no metadata but"},
		{what: "a finalizer", body: set("metadata", "finalizers", []any{"example.org/x"}), refused: "no metadata but"},
		{what: "its own annotation", body: set("metadata", "annotations", object{cluster.Last: "{}"})},
		{what: "another annotation", body: set("metadata", "annotations", object{"x": "y"}), refused: "no annotation but"},
		{what: "a label", body: set("metadata", "labels", object{"x": "y"}), refused: "no label but"},
		{what: "a label through the status", path: at + "/status", body: set("metadata", "labels", object{"x": "y"}), refused: "no label but"},
		{what: "the pods' network", body: set("spec", "podCIDR", "192.0.2.0/24"), refused: "specification but"},
		{what: "the provider's name", body: set("spec", "providerID", "x://y"), refused: "specification but"},
		{what: "its condition", path: at + "/status", kind: strategic, body: condition(cluster.ConditionType)},
		{what: "its condition again", path: at + "/status", kind: strategic, body: condition(cluster.ConditionType)},
		{what: "another condition", path: at + "/status", kind: strategic, body: condition("Ready"), refused: "no condition but"},
		{what: "a new condition", path: at + "/status", kind: strategic, body: condition("Tried"), refused: "no condition but"},
		{what: "allocatable", path: at + "/status", body: status("allocatable", object{"cpu": "960"}), refused: "status but"},
		{what: "its address", path: at + "/status", body: status("addresses", []any{object{"type": "InternalIP", "address": "192.0.2.2"}}), refused: "status but"},

		{what: "an operation without a cordon", body: node(operation(sequence.Draining, false), nil), refused: "only if its operation has cordoned it"},
		{what: "an operation with its cordon", body: node(operation(sequence.Draining, false), true)},
		{what: "the next phase", body: node(operation(sequence.Refreshing, false), true)},
		{what: "the end of both", body: node(object{cluster.Operation: nil}, nil)},
		{what: "an uncordon", prepare: cordon(true), body: set("spec", "unschedulable", nil), refused: "only if its operation has cordoned it"},
		{what: "an operation that would own the cordon", body: node(operation(sequence.Draining, false), true), refused: "only if its operation has cordoned it"},
		{what: "an operation that waits", body: node(operation(sequence.Waiting, false), true)},
		{what: "an uncordon while it waits", body: set("spec", "unschedulable", nil), refused: "only if its operation has cordoned it"},
		{what: "an uncordon with the waiting one", body: node(operation(sequence.Draining, false), nil), refused: "only if its operation has cordoned it"},
		{what: "an operation on a cordoned node", body: node(operation(sequence.Draining, true), true)},
		{what: "an uncordon at its end", body: node(object{cluster.Operation: nil}, nil), refused: "only if its operation has cordoned it"},
		{what: "its end", body: node(object{cluster.Operation: nil}, true)},
		{what: "a cordon", prepare: cordon(nil), body: set("spec", "unschedulable", true)},
	} {
		w.try(t, name, try, at)
	}
	w.budgetPolicy(t, name)
}

// budgetPolicy tries changes of the Leases with an agent's token.
func (w *world) budgetPolicy(t *testing.T, name string) {
	const at = leases + "/dcm-budget-tried"
	put := func(path string, spec object, labels object) func() {
		return func() {
			w.do(http.MethodDelete, path, nil)
			w.do(http.MethodPost, leases, object{"metadata": object{"name": path[strings.LastIndexByte(path, '/')+1:], "labels": labels}, "spec": spec})
		}
	}
	held := func(by string, renewed time.Duration) object {
		return object{"holderIdentity": by, "leaseDurationSeconds": 60, "renewTime": time.Now().Add(renewed).UTC().Format("2006-01-02T15:04:05.000000Z")}
	}
	budget := object{cluster.Budget: ""}
	lease := func(name string, labels, spec object) object {
		return object{"metadata": object{"name": name, "labels": labels}, "spec": spec}
	}
	const other = "n2/x"
	own := name + "/x"
	defer w.do(http.MethodDelete, at, nil)
	defer w.do(http.MethodDelete, leases+"/leader", nil)
	for _, try := range []attempt{
		{what: "a free place", prepare: put(at, object{}, budget), body: lease("dcm-budget-tried", budget, held(own, 0))},
		{what: "a renewal", body: lease("dcm-budget-tried", budget, held(own, time.Second))},
		{what: "a renewal after the clock was set back", body: lease("dcm-budget-tried", budget, held(own, -time.Hour))},
		{what: "its own place to another", body: lease("dcm-budget-tried", budget, held(other, 0)), refused: "may hold a lease for that node alone"},
		{what: "its own place away", body: lease("dcm-budget-tried", budget, object{})},
		{what: "a held place", prepare: put(at, held(other, 0), budget), body: lease("dcm-budget-tried", budget, held(own, 0)), refused: "held by n2/x and has not expired"},
		{what: "a held place, without a time", body: lease("dcm-budget-tried", budget, object{"holderIdentity": own}), refused: "has not expired"},
		{what: "another's place away", body: lease("dcm-budget-tried", budget, object{}), refused: "has not expired"},
		{what: "an expired place", prepare: put(at, held(other, -2*time.Minute), budget), body: lease("dcm-budget-tried", budget, held(own, 0))},
		{what: "another's expired place away", prepare: put(at, held(other, -2*time.Minute), budget), body: lease("dcm-budget-tried", budget, object{}), refused: "has not expired"},
		{what: "a place out of the budget", prepare: put(at, object{}, budget), body: lease("dcm-budget-tried", object{}, held(own, 0)), refused: "no metadata but"},
		{what: "another lease", prepare: put(leases+"/leader", object{}, object{}), path: leases + "/leader", body: lease("leader", object{}, held(own, 0)), refused: "no lease but those of the budget"},
	} {
		try.method = http.MethodPut
		w.try(t, name, try, at)
	}
}

// try makes an attempt with the token of the node's agent, on the object at path unless the attempt
// names another.
func (w *world) try(t *testing.T, node string, a attempt, at string) {
	t.Helper()
	if a.prepare != nil {
		a.prepare()
	}
	if a.path == "" {
		a.path = at
	}
	if a.method == "" {
		a.method = http.MethodPatch
	}
	if a.kind == "" && a.method == http.MethodPatch {
		a.kind = merge
	}
	if a.method == http.MethodPut {
		sub(a.body.(object), "metadata")["resourceVersion"] = sub(w.do(http.MethodGet, a.path, nil), "metadata")["resourceVersion"]
	}
	code, answer, err := w.as(w.token[node], a.method, a.path, a.kind, a.body)
	said := fmt.Sprint(answer["message"])
	switch {
	case err != nil:
		t.Errorf("%s: %v", a.what, err)
	case a.refused == "" && code > 201:
		t.Errorf("%s: %d %s", a.what, code, said)
	case a.refused != "" && (code != 403 || !strings.Contains(said, a.refused)):
		t.Errorf("%s: %d %s, want 403 with %q", a.what, code, said, a.refused)
	}
}
