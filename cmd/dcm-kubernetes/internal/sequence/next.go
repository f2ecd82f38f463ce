package sequence

import (
	"fmt"
	"slices"
	"strings"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Next returns the next step.
func Next(s Input) Step {
	op := s.Node.Op
	switch {
	case op == nil:
		return idle(s)
	case op.Since.After(s.Now) && slices.Contains([]Phase{Waiting, Sparing, Draining, Applying, Refreshing}, op.Phase):
		// The clock was set back. Otherwise no time limit would end before it catches up.
		op := *op
		op.Since = s.Now
		return Step{Act: Patch{Op: &op, State: s.Node.State, Cordon: s.Node.Cordoned || op.Phase != Waiting && op.Phase != Sparing, Taint: s.Node.Tainted},
			Condition: isFalse("Looking", "the host's clock was set back; the time limits of this phase restart")}
	case s.Host.Down != "" && op.Phase != Draining && op.Phase != Sparing:
		return wait(s, "HostUnreachable", "cannot query dcm on the host: "+s.Host.Down+"; the change continues when it answers")
	}
	switch op.Phase {
	case Waiting:
		return waiting(s, *op)
	case Sparing:
		return sparing(s, *op)
	case Draining:
		return draining(s, *op)
	case Applying:
		return applying(s, *op)
	case Refreshing:
		return refreshing(s, *op)
	}
	return Step{Act: Rest{}, Condition: isFalse("UnknownOperation",
		"annotation deviceconfig.org/operation: phase not supported (found "+string(op.Phase)+"): a newer dcm-kubernetes began the operation")}
}

// idle decides for a node without an operation.
func idle(s Input) Step {
	if names := mine(s); len(names) > 0 {
		return Step{Act: Free{Leases: names}, Condition: resting(s)}
	}
	if s.Taints != nil && len(s.Taints.Devices) > 0 {
		return Step{Act: UntaintDevices{Devices: s.Taints.Devices}, Condition: resting(s)}
	}
	target, ok := s.Target()
	switch {
	case s.Node.Profile == "":
		return Step{Act: Rest{}, Condition: resting(s)}
	case s.Node.Conflict != "":
		return record(s, Target{Profile: s.Node.Conflict}, &Outcome{Reason: InvalidProfile,
			Message: "labels of two vendors select a profile (found " + s.Node.Conflict + ", want one of them). hint: remove one of the labels"})
	case s.Host.Down != "":
		return wait(s, "HostUnreachable", "cannot query dcm on the host: "+s.Host.Down+". hint: install dcm on the host, and set enabled = true in [agent]")
	case !ok:
		return record(s, Target{Profile: s.Node.Profile, Hash: s.Config.Hash}, s.Config.Problem)
	case s.Host.Running:
		return wait(s, "Running", "a run of dcm is in progress")
	}
	if step := settled(s); step != nil {
		return *step
	}
	if s.Plan == nil || s.Pods == nil || s.Leases == nil {
		return wait(s, "Looking", "reading what the profile would change")
	}
	if why := refusal(s); why != nil {
		return record(s, target, why)
	}
	if !s.Plan.Changes {
		return take(s, target)
	}
	return Step{
		Act: Patch{Op: &Operation{ID: s.ID, Vendor: operationVendor(s.Node), Target: target, Phase: Waiting, Since: s.Now},
			State: s.Node.State, Cordon: s.Node.Cordoned, Taint: s.Node.Tainted},
		Condition: isFalse("WaitingForBudget", "the change to "+target.Profile+" is about to begin"),
	}
}

// operationVendor returns the vendor as the annotation has it.
func operationVendor(n Node) string {
	if v := n.vendor(); v != vendor.AMD {
		return v.Name
	}
	return ""
}

// take applies a target that changes no GPU, so that no drain is needed.
func take(s Input, target Target) Step {
	switch used := s.Used; {
	case used == nil || used.Target != target:
		return Step{Act: Use{Target: target}, Condition: resting(s)}
	case used.Failed != nil:
		return record(s, target, used.Failed)
	}
	return succeed(s, target, AlreadyExists, "the GPUs already matched "+target.Profile)
}

// settled returns the step for a target with a known result; nil if it has none.
func settled(s Input) *Step {
	target, ok := s.Target()
	last := s.Node.Last
	if !ok || last == nil || last.Target != target {
		return nil
	}
	step := Step{Act: Rest{}, Condition: resting(s)}
	switch {
	case last.State == Success && s.Host.Effective == target.Profile:
		if !s.Host.InSync && s.Times.Reread > 0 {
			step.Act = Wait{For: s.Times.Reread} // another program may come to be the cause
		}
		return &step
	case last.State == Success || last.Outcome == nil:
		return nil // another profile was selected on the host
	case last.Outcome.Judged != "" && last.Outcome.Judged != judged(s.Node):
		return nil
	case last.Outcome.Retry:
		left := s.Times.Retry - s.Now.Sub(last.At)
		if left <= 0 || left > s.Times.Retry {
			return nil // in the future: the clock was set back
		}
		step.Act = Wait{For: left}
	}
	return &step
}

// applied reports whether the node rests with its target.
func applied(s Input) bool { return settled(s) != nil && s.Node.Last.State == Success }

// resting returns the condition of a node without an operation.
func resting(s Input) Condition {
	last := s.Node.Last
	switch {
	case s.Node.Profile == "":
		return Condition{Status: "Unknown", Reason: "NoProfile", Message: "no profile is selected: label " + s.Node.vendor().Profile + " is not set; the GPUs are unchanged"}
	case s.Node.Conflict != "":
		return isFalse(InvalidProfile, "labels of two vendors select a profile")
	case last == nil || last.Profile != s.Node.Profile:
		return isFalse("Looking", "the profile "+s.Node.Profile+" was just selected")
	case last.State == Failure && last.Outcome != nil:
		return isFalse(last.Outcome.Reason, last.Outcome.Message)
	case s.Host.Down == "" && !s.Host.InSync && s.Rival != "":
		return isFalse("OtherManager", "the GPUs do not match the profile; "+s.Rival)
	case s.Host.Down == "" && !s.Host.InSync:
		return isFalse("NotInSync", strings.TrimSpace("the GPUs do not match the profile: "+s.Host.Problem))
	case s.Rival != "":
		return isFalse("OtherManager", s.Rival)
	}
	return Condition{Status: "True", Reason: "Applied", Message: "the GPUs match " + last.Profile}
}

// refusal returns why no operation may start.
func refusal(s Input) *Outcome {
	switch {
	case s.Config.Unusable[s.Node.Profile] != "":
		return &Outcome{Reason: InvalidProfile, Message: s.Config.Unusable[s.Node.Profile]}
	case s.Plan.Refusal != nil:
		return s.Plan.Refusal
	case s.Pods != nil && s.Pods.Rival != "":
		return &Outcome{Reason: PartitionFailure, Message: s.Pods.Rival, Retry: true}
	case s.Plan.Reload && s.Node.KMM:
		return &Outcome{Reason: PartitionFailure, Retry: true,
			Message: "the profile changes the memory mode, which reloads the driver, but Kernel Module Management has loaded it. hint: select a profile with the current memory mode, or install the driver on the host"}
	case s.Plan.Changes && judge(s) != nil:
		return judge(s)
	case s.Plan.Changes && len(s.Leases.Of(s.Node.Pool)) == 0 && s.Node.Pool != "":
		return &Outcome{Reason: PartitionFailure, Retry: true,
			Message: fmt.Sprintf("no Lease has the label deviceconfig.org/budget=%s, as the node does. hint: create one Lease for each node of this pool that may change concurrently", s.Node.Pool)}
	case s.Plan.Changes && len(s.Leases.Of(s.Node.Pool)) == 0:
		return &Outcome{Reason: PartitionFailure, Retry: true,
			Message: "no Lease has the label deviceconfig.org/budget with an empty value. hint: create one Lease for each node that may change concurrently"}
	}
	return nil
}

// mine returns the leases that this node holds for a finished operation.
func mine(s Input) []string {
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
