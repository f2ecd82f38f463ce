package sequence

import (
	"fmt"
	"slices"
	"strings"
)

// applying applies the target through dcm. No pod uses the GPUs in this phase.
func applying(s Input, op Operation) Step {
	target, ok := s.Target()
	switch {
	case s.Host.Rebooting && s.Node.vendor().States[Rebooting] != "" && s.Node.State != Rebooting:
		return Step{Act: Patch{Op: &op, State: Rebooting, Cordon: true, Taint: true}, Condition: isFalse("Applying", "dcm reboots the host for "+op.Profile)}
	case s.Host.Running:
		return wait(s, "Applying", "dcm changes the GPUs")
	case !ok:
		return withdrawn(s, op)
	case target != op.Target && len(op.GPUs) > 0:
		return refresh(s, op, &Outcome{Reason: PartitionFailure, Message: "another profile was selected before the change: " + target.Profile})
	case target != op.Target:
		op.Target, op.Outcome, op.Since = target, nil, s.Now
		return keep(op, "Applying", "another profile was selected meanwhile: "+target.Profile)
	case op.Outcome != nil && s.Now.Sub(op.Since) < s.Times.Retry && (!s.Host.InSync || s.Host.Effective != op.Profile):
		return Step{Act: Wait{For: s.Times.Retry - s.Now.Sub(op.Since)}, Condition: isFalse(op.Outcome.Reason, op.Outcome.Message)}
	case s.Plan == nil:
		return wait(s, "Looking", "reading what the profile would change")
	case s.Used == nil && exceeds(s, op):
		return refresh(s, op, &Outcome{Reason: PartitionFailure, Retry: true, Message: "the change concerns other GPUs than those that were drained"})
	case s.Plan.Refusal != nil && op.Outcome == nil:
		return refresh(s, op, s.Plan.Refusal)
	case s.Used == nil || s.Used.Target != target:
		return Step{Act: Use{Target: target}, Condition: isFalse("Applying", "dcm changes the GPUs to "+target.Profile)}
	}
	return used(s, op)
}

// used goes on after dcm's answer. If a failed change is not undone, the layout of the
// GPUs is unknown: the node stays cordoned and keeps its place in the budget, so the
// failure is reported now and not at the end.
func used(s Input, op Operation) Step {
	why := s.Used.Failed
	if why != nil && len(op.GPUs) > 0 {
		// A pod on another GPU may be in the way.
		next := *why
		next.Whole = true
		why = &next
	}
	if why == nil || s.Used.Undone {
		return refresh(s, op, why)
	}
	op.Outcome, op.Since = why, s.Now
	return Step{
		Act: Patch{Op: &op, State: Failure, Cordon: true, Taint: true,
			Event: &Event{Warning: true, Reason: why.Reason, Note: "the node stays cordoned: " + why.Message, Key: s.ID}},
		Condition: isFalse(why.Reason, why.Message),
	}
}

// withdrawn ends a change whose target is no longer selected: the label was removed, or
// the ConfigMap cannot be used. dcm's work stays, and is reported as it is.
func withdrawn(s Input, op Operation) Step {
	_, planned := s.Planned()
	switch {
	case s.Used != nil && s.Used.Target == op.Target:
		return used(s, op)
	case planned && s.Plan == nil:
		return wait(s, "Looking", "reading what the profile would change")
	case planned && s.Plan.Refusal == nil && !s.Plan.Changes && s.Host.Effective == op.Profile:
		return refresh(s, op, nil)
	case !s.Host.InSync:
		return wait(s, "NotInSync", strings.TrimSpace("the node stays cordoned: no profile is selected, and the GPUs do not match the effective profile: "+s.Host.Problem))
	case s.Config.Problem != nil:
		return refresh(s, op, s.Config.Problem)
	}
	force := "no profile is effective"
	if s.Host.Effective != "" {
		force = "the effective profile is " + s.Host.Effective
	}
	return refresh(s, op, &Outcome{Reason: PartitionFailure, Message: "the label was removed before the change to " + op.Profile + "; " + force})
}

// keep continues with a changed operation on a node that stays cordoned and tainted.
func keep(op Operation, reason, message string) Step {
	return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: true}, Condition: isFalse(reason, message)}
}

// refresh removes the taint, so that the operands return to the node, which stays cordoned.
func refresh(s Input, op Operation, why *Outcome) Step {
	op.Phase, op.Since, op.Outcome, op.Emptied = Refreshing, s.Now, why, false
	return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: op.WasTainted}, Condition: isFalse("Refreshing", "waits for the device plugin to report the partitions")}
}

// refreshing waits until the node offers the partitions that it has.
func refreshing(s Input, op Operation) Step {
	target, ok := s.Target()
	if ok && target != op.Target && len(op.GPUs) == 0 {
		op.Target, op.Phase, op.Since, op.Outcome = target, Draining, s.Now, nil
		op.Listed, op.Stale = false, nil
		return keep(op, "Draining", "another profile was selected meanwhile: "+target.Profile)
	}
	if s.Pods == nil {
		return wait(s, "Looking", "reading the node's pods")
	}
	staying := slices.DeleteFunc(slices.Clone(s.Pods.Operands), func(p Pod) bool { return !p.Stays || p.Leaving })
	if len(staying) > 0 && !op.Listed {
		// These pods are older than the change. Their creation times cannot show that, since
		// the API server has another clock.
		op.Listed = true
		for _, p := range staying {
			op.Stale = append(op.Stale, p.UID)
		}
		return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: op.WasTainted}, Condition: isFalse("Refreshing", "about to restart pods that tolerate the taint: "+list(staying))}
	}
	if stale := slices.DeleteFunc(staying, func(p Pod) bool { return !slices.Contains(op.Stale, p.UID) }); len(stale) > 0 {
		return Step{Act: Delete{Pods: stale}, Condition: isFalse("Refreshing", "restarts pods that tolerate the taint: "+list(stale))}
	}
	if s.Host.Running || s.Host.Unread {
		// Without GPUs a node that offers nothing would match.
		return Step{Act: Wait{For: s.Times.Look}, Condition: isFalse("Refreshing", "waits for dcm to report the GPUs after its start or run")}
	}
	if missing := missing(s, op); missing != "" {
		message := "waits for " + missing
		if waited := s.Now.Sub(op.Since); waited >= s.Times.Refresh {
			message = fmt.Sprintf("the GPUs are changed, but the node stays cordoned: after %s it still waits for %s. hint: check the device plugin on this node", s.Times.Refresh, missing)
		}
		return Step{Act: Wait{For: s.Times.Look}, Condition: isFalse("Refreshing", message)}
	}
	return finish(s, op)
}

// finish restores the cordon and the taint from before the operation, and records the result.
func finish(s Input, op Operation) Step {
	if op.Outcome != nil {
		return undo(s, op, op.Outcome)
	}
	step := succeed(s, op.Target, Partitioned, fmt.Sprintf("the GPUs have profile %s, with %d partitions", op.Profile, s.Host.Total()))
	patch := step.Act.(Patch)
	patch.Cordon, patch.Taint, patch.Event.Key = op.WasCordoned, op.WasTainted, op.ID
	step.Act = patch
	return step
}

// missing returns what the node waits for; "" for nothing.
func missing(s Input, op Operation) string {
	for _, owner := range op.Operands {
		if !slices.ContainsFunc(s.Pods.Operands, func(p Pod) bool { return p.Owner == owner && p.Ready && !p.Leaving }) {
			return "a ready pod of " + owner
		}
	}
	counts := op.Counted || s.Pods.Plugin || offers(s.Node.Allocatable)
	switch {
	case counts && !offered(s):
		return fmt.Sprintf("allocatable to show %s (found %s)", expected(s), resources(s.Node.Allocatable))
	case (op.Sliced || s.Pods.Driver) && !published(s.Pods.Slices, s.Host):
		return fmt.Sprintf("the ResourceSlices to show %s (found %s)", resources(s.Host.Partitions), resources(s.Pods.Slices))
	}
	return ""
}
