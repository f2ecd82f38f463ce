package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// Labels, annotations and condition of a node.
const (
	Profile       = "dcm.amd.com/gpu-config-profile"       // label: AMD's, the user's
	State         = "dcm.amd.com/gpu-config-profile-state" // label: AMD's, the agent's
	Operation     = "deviceconfig.org/operation"           // annotation
	Last          = "deviceconfig.org/last"                // annotation
	ConditionType = "GPUProfileApplied"
)

// taint keeps GPU operands from returning. AMD's instructions have the same key with
// NoExecute, which would end all other pods and ignore disruption budgets.
var taint = core.Taint{Key: "amd-dcm", Value: "up", Effect: core.TaintEffectNoSchedule}

func isTaint(t core.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect }

// View converts a node for package sequence.
func View(node *core.Node) (sequence.Node, error) {
	v := sequence.Node{
		Name:        node.Name,
		Profile:     node.Labels[Profile],
		State:       node.Labels[State],
		Cordoned:    node.Spec.Unschedulable,
		Tainted:     slices.ContainsFunc(node.Spec.Taints, isTaint),
		Allocatable: make(map[string]int64),
	}
	for label := range node.Labels {
		if strings.HasPrefix(label, "kmm.node.kubernetes.io/") && strings.HasSuffix(label, ".ready") {
			v.KMM = true
		}
	}
	for name, n := range node.Status.Allocatable {
		if gpus(name) {
			v.Allocatable[string(name)] = n.Value()
		}
	}
	if err := annotation(node, Operation, &v.Op); err != nil {
		return v, err
	}
	return v, annotation(node, Last, &v.Last)
}

// annotation parses an annotation of the agent. An unreadable one is an error, since its
// meaning is unknown.
func annotation[T any](node *core.Node, key string, into **T) error {
	text, ok := node.Annotations[key]
	if !ok || text == "" {
		return nil
	}
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return &UnreadableError{fmt.Errorf("node %s: annotation %s: not valid: %w. hint: check the node, then remove the annotation", node.Name, key, err)}
	}
	*into = &value
	return nil
}

// UnreadableError is an annotation that the agent did not write. The administrator has to
// check it.
type UnreadableError struct{ error }

// Render returns the merge patch. It applies only to the version that was read, since other
// writers change the list of taints too.
func Render(seen *core.Node, p sequence.Patch) ([]byte, error) {
	labels := map[string]any{State: orNil(p.State)}
	annotations := map[string]any{Operation: nil}
	if p.Op != nil {
		text, err := json.Marshal(p.Op)
		if err != nil {
			return nil, err
		}
		annotations[Operation] = string(text)
	}
	if p.Last != nil {
		text, err := json.Marshal(p.Last)
		if err != nil {
			return nil, err
		}
		annotations[Last] = string(text)
	}
	patch := map[string]any{"metadata": map[string]any{
		"resourceVersion": seen.ResourceVersion, "labels": labels, "annotations": annotations,
	}}
	if spec := spec(seen, p); len(spec) > 0 {
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// spec returns the changes of the node's spec.
func spec(seen *core.Node, p sequence.Patch) map[string]any {
	out := make(map[string]any)
	if p.Cordon != seen.Spec.Unschedulable {
		out["unschedulable"] = nil
		if p.Cordon {
			out["unschedulable"] = true
		}
	}
	if p.Taint != slices.ContainsFunc(seen.Spec.Taints, isTaint) {
		taints := slices.DeleteFunc(slices.Clone(seen.Spec.Taints), isTaint)
		if p.Taint {
			taints = append(taints, taint)
		}
		out["taints"] = nil
		if len(taints) > 0 {
			out["taints"] = taints
		}
	}
	return out
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Condition returns the node's condition.
func Condition(node *core.Node) sequence.Condition {
	for _, c := range node.Status.Conditions {
		if c.Type == ConditionType {
			return sequence.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		}
	}
	return sequence.Condition{}
}
