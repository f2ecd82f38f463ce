package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Annotations and condition of a node.
const (
	Operation     = "deviceconfig.org/operation"
	Last          = "deviceconfig.org/last"
	Drain         = "deviceconfig.org/drain" // set by the administrator: the time limit of a drain
	ConditionType = "GPUProfileApplied"
)

// taint keeps GPU operands from returning.
func taint(v *vendor.Vendor) core.Taint {
	return core.Taint{Key: v.Taint.Key, Value: v.Taint.Value, Effect: core.TaintEffectNoSchedule}
}

func isTaint(v *vendor.Vendor) func(core.Taint) bool {
	return func(t core.Taint) bool { return t.Key == v.Taint.Key && t.Effect == core.TaintEffectNoSchedule }
}

// View converts a node for package sequence. During an operation, its vendor is that of the
// operation.
func View(node *core.Node) (sequence.Node, error) {
	var op *sequence.Operation
	err := annotation(node, Operation, &op)
	of := vendorOf(node, op)
	v := sequence.Node{
		Name:        node.Name,
		Vendor:      of,
		Profile:     node.Labels[of.Profile],
		State:       of.StateOf(node.Labels[of.State]),
		Cordoned:    node.Spec.Unschedulable,
		Tainted:     slices.ContainsFunc(node.Spec.Taints, isTaint(of)),
		Op:          op,
		Labels:      node.Labels,
		Pool:        node.Labels[Budget],
		Allocatable: make(map[string]int64),
	}
	if op == nil {
		v.Conflict = vendor.Conflict(node.Labels)
	}
	for label := range node.Labels {
		if strings.HasPrefix(label, "kmm.node.kubernetes.io/") && strings.HasSuffix(label, ".ready") {
			v.KMM = true
		}
	}
	for name, n := range node.Status.Allocatable {
		if of.GPU(string(name)) {
			v.Allocatable[string(name)] = n.Value()
		}
	}
	if err == nil {
		err = annotation(node, Last, &v.Last)
	}
	if err == nil {
		v.Drain, err = drainLimit(node)
	}
	return v, err
}

// drainLimit parses the annotation with the time limit of a drain, nil without one.
func drainLimit(node *core.Node) (*time.Duration, error) {
	text, ok := node.Annotations[Drain]
	if !ok {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, &UnreadableError{fmt.Errorf("node %s: annotation %s: not valid (found %q, want a duration such as 8h, or 0 for no limit)", node.Name, Drain, text)}
	}
	return &d, nil
}

func vendorOf(node *core.Node, op *sequence.Operation) *vendor.Vendor {
	if op != nil {
		return vendor.Named(op.Vendor)
	}
	return vendor.Of(node.Labels)
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

// SameTarget reports whether two versions of a node have the same operation and profiles.
func SameTarget(a, b *core.Node) bool {
	return a.UID == b.UID && a.Annotations[Operation] == b.Annotations[Operation] &&
		!slices.ContainsFunc(vendor.All, func(v *vendor.Vendor) bool { return a.Labels[v.Profile] != b.Labels[v.Profile] })
}

// Render returns the merge patch. It applies only to the version that was read, since other
// writers change the list of taints too.
func Render(seen *core.Node, p sequence.Patch) ([]byte, error) {
	var before *sequence.Operation
	if err := annotation(seen, Operation, &before); err != nil {
		return nil, err
	}
	of := vendorOf(seen, before)
	if p.Op != nil {
		of = vendorOf(seen, p.Op)
	}
	labels := map[string]any{of.State: orNil(of.Word(p.State))}
	if p.Op == nil && before == nil {
		others(seen, of, p.State, labels)
	}
	pause(seen, before, p.Op, labels)
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
	if spec := spec(seen, p, of); len(spec) > 0 {
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// others sets the state of the other vendors: that of a conflict of their profiles, and none after it.
func others(seen *core.Node, of *vendor.Vendor, state string, labels map[string]any) {
	conflict := vendor.Conflict(seen.Labels) != ""
	for _, v := range vendor.All {
		switch {
		case v == of:
		case conflict:
			labels[v.State] = orNil(v.Word(state))
		case seen.Labels[v.Profile] == "" && seen.Labels[v.State] != "":
			labels[v.State] = nil
		}
	}
}

// pause sets the labels that select operands. An operation pauses them while it drains and applies,
// and restores the values from before. A label that was changed meanwhile stays as it is.
func pause(seen *core.Node, before, now *sequence.Operation, labels map[string]any) {
	from, paused := now, now != nil && !slices.Contains([]sequence.Phase{sequence.Waiting, sequence.Sparing, sequence.Refreshing}, now.Phase)
	if from == nil {
		from = before
	}
	if from == nil {
		return
	}
	for label, old := range from.Paused {
		switch value := seen.Labels[label]; {
		case paused && now.Pauses(label) && value == old:
			labels[label] = vendor.Paused
		case !paused && value == vendor.Paused:
			labels[label] = old
		}
	}
}

// spec returns the changes of the node's spec.
func spec(seen *core.Node, p sequence.Patch, of *vendor.Vendor) map[string]any {
	out := make(map[string]any)
	if p.Cordon != seen.Spec.Unschedulable {
		out["unschedulable"] = nil
		if p.Cordon {
			out["unschedulable"] = true
		}
	}
	if p.Taint != slices.ContainsFunc(seen.Spec.Taints, isTaint(of)) {
		taints := slices.DeleteFunc(slices.Clone(seen.Spec.Taints), isTaint(of))
		if p.Taint {
			taints = append(taints, taint(of))
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
