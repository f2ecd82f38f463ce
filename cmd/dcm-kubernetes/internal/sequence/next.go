package sequence

import (
	"slices"
	"strings"
)

// Next returns the next step.
func Next(s Seen) Step {
	op := s.Node.Op
	switch {
	case op == nil:
		return idle(s)
	case op.Since.After(s.Now) && slices.Contains([]Phase{Waiting, Draining, Applying, Refreshing}, op.Phase):
		// The clock was set back. Otherwise no time limit would end before it catches up.
		op := *op
		op.Since = s.Now
		return Step{Act: Patch{Op: &op, State: s.Node.State, Cordon: s.Node.Cordoned || op.Phase != Waiting, Taint: s.Node.Tainted},
			Condition: isFalse("Looking", "the host's clock was set back; the time limits of this phase begin again")}
	case s.Host.Down != "" && op.Phase != Draining:
		return wait(s, "HostUnreachable", "dcm cannot be asked: "+s.Host.Down+"; the change goes on once it answers")
	}
	switch op.Phase {
	case Waiting:
		return waiting(s, *op)
	case Draining:
		return draining(s, *op)
	case Applying:
		return applying(s, *op)
	case Refreshing:
		return refreshing(s, *op)
	}
	return Step{Act: Rest{}, Condition: isFalse("UnknownOperation",
		"the annotation deviceconfig.org/operation has the unknown phase "+string(op.Phase)+": an older dcm-kubernetes does not go on with what a newer one has begun")}
}

// idle decides for a node without an operation.
func idle(s Seen) Step {
	if names := mine(s); len(names) > 0 {
		return Step{Act: Free{Leases: names}, Condition: resting(s)}
	}
	target, told := s.Target()
	switch {
	case s.Node.Profile == "":
		return Step{Act: Rest{}, Condition: resting(s)}
	case s.Host.Down != "":
		return wait(s, "HostUnreachable", "dcm cannot be asked: "+s.Host.Down+"; is dcm installed on the host, and the section agent in its configuration?")
	case !told:
		return record(s, Target{Profile: s.Node.Profile, Hash: s.Config.Hash}, s.Config.Problem)
	case s.Host.Running:
		return wait(s, "Running", "dcm has a run under way")
	}
	if step := settled(s); step != nil {
		return *step
	}
	if s.Plan == nil || s.Pods == nil || s.Leases == nil {
		return wait(s, "Looking", "what the profile would change is not known yet")
	}
	if why := refusal(s); why != nil {
		return record(s, target, why)
	}
	if !s.Plan.Changes {
		return take(s, target)
	}
	return Step{
		Act: Patch{Op: &Operation{ID: s.ID, Target: target, Phase: Waiting, Since: s.Now},
			State: s.Node.State, Cordon: s.Node.Cordoned, Taint: s.Node.Tainted},
		Condition: isFalse("WaitingForBudget", "the change to "+target.Profile+" is to begin"),
	}
}

// take applies a target that changes no GPU, so that no drain is needed.
func take(s Seen, target Target) Step {
	switch used := s.Used; {
	case used == nil || used.Target != target:
		return Step{Act: Use{Target: target}, Condition: resting(s)}
	case used.Failed != nil:
		return record(s, target, used.Failed)
	}
	return succeed(s, target, AlreadyExists, "the GPUs were as "+target.Profile+" says")
}

// settled returns the step for a target with a known result; nil if it has none.
func settled(s Seen) *Step {
	target, told := s.Target()
	last := s.Node.Last
	if !told || last == nil || last.Target != target {
		return nil
	}
	step := Step{Act: Rest{}, Condition: resting(s)}
	switch {
	case last.State == Success && s.Host.InForce == target.Profile:
		return &step
	case last.State == Success || last.Outcome == nil:
		return nil // another profile was selected on the host
	case last.Outcome.Retry:
		left := s.Times.Retry - s.Now.Sub(last.At)
		if left <= 0 || left > s.Times.Retry {
			return nil // in the future: the clock was set back
		}
		step.Act = Wait{For: left}
	}
	return &step
}

// resting returns the condition of a node without an operation.
func resting(s Seen) Condition {
	last := s.Node.Last
	switch {
	case s.Node.Profile == "":
		return Condition{Status: "Unknown", Reason: "NoProfile", Message: "no profile is selected: the label dcm.amd.com/gpu-config-profile is not set; the GPUs are left as they are"}
	case last == nil || last.Profile != s.Node.Profile:
		return isFalse("Looking", "the profile "+s.Node.Profile+" was just selected")
	case last.State == Failure && last.Outcome != nil:
		return isFalse(last.Outcome.Reason, last.Outcome.Message)
	case s.Host.Down == "" && !s.Host.InSync:
		return isFalse("NotInSync", strings.TrimSpace("the GPUs are not as the profile says: "+s.Host.Problem))
	}
	return Condition{Status: "True", Reason: "Applied", Message: "the GPUs are as " + last.Profile + " says"}
}

// refusal returns why no operation may start.
func refusal(s Seen) *Outcome {
	switch {
	case s.Plan.Refusal != nil:
		return s.Plan.Refusal
	case s.Pods != nil && s.Pods.Rival != "":
		return &Outcome{Reason: PartitionFailure, Message: s.Pods.Rival, Retry: true}
	case s.Plan.Reload && s.Node.KMM:
		return &Outcome{Reason: PartitionFailure, Retry: true,
			Message: "the profile changes the memory mode, for which the driver is loaded anew, and Kernel Module Management has loaded it: the host would bring another one; select a profile with the memory mode that the GPUs have, or install the driver on the host"}
	case s.Plan.Changes && len(s.Leases.All) == 0:
		return &Outcome{Reason: PartitionFailure, Retry: true,
			Message: "there is no Lease with the label deviceconfig.org/budget: the budget says how many nodes may change at a time; create as many"}
	}
	return nil
}

// mine returns the leases that this node holds for a finished operation.
func mine(s Seen) []string {
	if s.Leases == nil {
		return nil
	}
	var names []string
	for _, l := range s.Leases.All {
		node, id, _ := strings.Cut(l.Holder, "/")
		if node == s.Node.Name && (s.Node.Op == nil || s.Node.Op.ID != id) {
			names = append(names, l.Name)
		}
	}
	return names
}
