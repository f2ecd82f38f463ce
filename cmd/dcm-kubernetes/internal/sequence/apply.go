package sequence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// applying has nothing to fear from pods: dcm divides the GPUs.
func applying(s Seen, op Operation) Step {
	target, told := s.Target()
	switch {
	case s.Host.Running:
		return wait(s, "Applying", "dcm divides the GPUs")
	case !told:
		return withdrawn(s, op)
	case target != op.Target:
		op.Target, op.Outcome, op.Since = target, nil, s.Now
		return keep(op, "Applying", "another profile was selected meanwhile: "+target.Profile)
	case op.Outcome != nil && s.Now.Sub(op.Since) < s.Times.Retry && (!s.Host.InSync || s.Host.InForce != op.Profile):
		return Step{Act: Wait{For: s.Times.Retry - s.Now.Sub(op.Since)}, Condition: isFalse(op.Outcome.Reason, op.Outcome.Message)}
	case s.Plan == nil:
		return wait(s, "Looking", "what the profile would change is not known yet")
	case s.Plan.Refusal != nil && op.Outcome == nil:
		return refresh(s, op, s.Plan.Refusal)
	case s.Used == nil || s.Used.Target != target:
		return Step{Act: Use{Target: target}, Condition: isFalse("Applying", "dcm divides the GPUs as "+target.Profile+" says")}
	}
	return used(s, op)
}

// used goes on after dcm's answer. If a failed change is not undone, the layout of the
// GPUs is unknown: the node stays cordoned and keeps its place in the budget, so the
// failure is reported now and not at the end.
func used(s Seen, op Operation) Step {
	why := s.Used.Failed
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
func withdrawn(s Seen, op Operation) Step {
	_, planned := s.Planned()
	switch {
	case s.Used != nil && s.Used.Target == op.Target:
		return used(s, op)
	case planned && s.Plan == nil:
		return wait(s, "Looking", "what the profile would change is not known yet")
	case planned && s.Plan.Refusal == nil && !s.Plan.Changes && s.Host.InForce == op.Profile:
		return refresh(s, op, nil)
	case !s.Host.InSync:
		return wait(s, "NotInSync", strings.TrimSpace("no profile is selected, and the GPUs are not as the profile in force says, so the node stays cordoned: "+s.Host.Problem))
	case s.Config.Problem != nil:
		return refresh(s, op, s.Config.Problem)
	}
	force := "no profile is in force"
	if s.Host.InForce != "" {
		force = "the profile in force is " + s.Host.InForce
	}
	return refresh(s, op, &Outcome{Reason: PartitionFailure, Message: "the label was removed before dcm divided the GPUs as " + op.Profile + " says; " + force})
}

// keep goes on with the operation, changed, on a node that stays as it is.
func keep(op Operation, reason, message string) Step {
	return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: true}, Condition: isFalse(reason, message)}
}

// refresh drops the taint, so that the operands come back to a node that is still
// cordoned.
func refresh(s Seen, op Operation, why *Outcome) Step {
	op.Phase, op.Since, op.Outcome = Refreshing, s.Now, why
	return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: op.WasTainted}, Condition: isFalse("Refreshing", "waits for the device plugin to count the partitions")}
}

// refreshing waits until the node offers what it has.
func refreshing(s Seen, op Operation) Step {
	target, told := s.Target()
	if told && target != op.Target {
		op.Target, op.Phase, op.Since, op.Outcome = target, Draining, s.Now, nil
		op.Listed, op.Stale = false, nil
		return keep(op, "Draining", "another profile was selected meanwhile: "+target.Profile)
	}
	if s.Pods == nil {
		return wait(s, "Looking", "the node's pods are not known yet")
	}
	staying := slices.DeleteFunc(slices.Clone(s.Pods.Operands), func(p Pod) bool { return !p.Stays || p.Leaving })
	if len(staying) > 0 && !op.Listed {
		// They were there before. No clock tells that: the server's is another one.
		op.Listed = true
		for _, p := range staying {
			op.Stale = append(op.Stale, p.UID)
		}
		return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: op.WasTainted}, Condition: isFalse("Refreshing", "is to restart what tolerates the taint: "+list(staying))}
	}
	if stale := slices.DeleteFunc(staying, func(p Pod) bool { return !slices.Contains(op.Stale, p.UID) }); len(stale) > 0 {
		return Step{Act: Delete{Pods: stale}, Condition: isFalse("Refreshing", "restarts what tolerates the taint: "+list(stale))}
	}
	if missing := missing(s, op); missing != "" {
		message := "waits for " + missing
		if waited := s.Now.Sub(op.Since); waited >= s.Times.Refresh {
			message = fmt.Sprintf("the GPUs are divided, and the node stays cordoned: after %s it still waits for %s; look at the device plugin on this node", s.Times.Refresh, missing)
		}
		return Step{Act: Wait{For: s.Times.Look}, Condition: isFalse("Refreshing", message)}
	}
	return finish(s, op)
}

// finish uncordons what it has cordoned.
func finish(s Seen, op Operation) Step {
	if op.Outcome != nil {
		return undo(s, op, op.Outcome)
	}
	step := succeed(s, op.Target, Partitioned, fmt.Sprintf("the GPUs are divided as %s says, into %d", op.Profile, s.Host.Total()))
	patch := step.Act.(Patch)
	patch.Cordon, patch.Taint, patch.Event.Key = op.WasCordoned, op.WasTainted, op.ID
	step.Act = patch
	return step
}

// missing is what is not as it should be yet; empty if nothing is.
func missing(s Seen, op Operation) string {
	for _, owner := range op.Operands {
		if !slices.ContainsFunc(s.Pods.Operands, func(p Pod) bool { return p.Owner == owner && p.Ready && !p.Leaving }) {
			return "a ready pod of " + owner
		}
	}
	counts := op.Counted || s.Pods.Plugin || offers(s.Node.Allocatable)
	switch {
	case counts && !offered(s.Node.Allocatable, s.Host):
		return fmt.Sprintf("allocatable to be %d partitions; it is %s", s.Host.Total(), resources(s.Node.Allocatable))
	case (op.Sliced || s.Pods.Driver) && !published(s.Pods.Slices, s.Host):
		return fmt.Sprintf("the ResourceSlices to have %s; they have %s", resources(s.Host.Partitions), resources(s.Pods.Slices))
	}
	return ""
}

// offered tells whether the device plugin's counts are dcm's: by one name for all, or
// by a name for each mode.
func offered(allocatable map[string]int64, host Host) bool {
	one := map[string]int64{"amd.com/gpu": int64(host.Total())}
	each := make(map[string]int64)
	for mode, n := range some(host.Partitions) {
		each["amd.com/"+mode] += int64(n)
	}
	now := some(allocatable)
	return maps.Equal(now, one) || maps.Equal(now, each)
}

// published tells whether the DRA driver's devices are dcm's partitions: by mode, or by
// their number alone where the driver does not know a GPU's mode.
func published(devices map[string]int, host Host) bool {
	if devices[""] > 0 {
		return Host{Partitions: devices}.Total() == host.Total()
	}
	return maps.Equal(some(devices), some(host.Partitions))
}

// some leaves out what there is none of.
func some[N int | int64](counts map[string]N) map[string]N {
	out := maps.Clone(counts)
	maps.DeleteFunc(out, func(_ string, n N) bool { return n == 0 })
	return out
}

// offers tells whether the node offers any GPU. The kubelet keeps the names of a device
// plugin that has gone.
func offers(allocatable map[string]int64) bool {
	for _, n := range allocatable {
		if n > 0 {
			return true
		}
	}
	return false
}

func resources[N int | int64](allocatable map[string]N) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(allocatable)) {
		out = append(out, fmt.Sprintf("%s=%d", name, allocatable[name]))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, " ")
}
