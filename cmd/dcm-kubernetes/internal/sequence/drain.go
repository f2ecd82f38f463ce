package sequence

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// waiting waits for the budget, before anything is changed.
func waiting(s Input, op Operation) Step {
	dropped := Step{Act: Patch{State: s.Node.State, Cordon: s.Node.Cordoned, Taint: s.Node.Tainted}, Condition: resting(s)}
	target, ok := s.Target()
	switch {
	case !ok || target != op.Target:
		return dropped
	case s.Plan == nil || s.Leases == nil || holds(s) && s.Pods == nil:
		return wait(s, "Looking", "reading what the profile would change")
	case refusal(s) != nil || !s.Plan.Changes:
		return dropped
	case holds(s):
		return begin(s, op)
	}
	if l := s.Leases.Open(s.Node.Pool, s.Node.Name); l != nil {
		return Step{Act: Take{Lease: l.Name, Holder: Holder(s.Node.Name, op.ID)}, Condition: isFalse("WaitingForBudget", "the change to "+op.Profile+" is about to begin")}
	}
	// Many nodes wait concurrently, and in a large budget the holders change often.
	return Step{Act: Wait{For: s.Times.Budget}, Slack: 10 * s.Times.Budget,
		Condition: isFalse("WaitingForBudget", "the change to "+op.Profile+" waits: "+exhausted(s))}
}

// exhausted describes a budget without a free Lease.
func exhausted(s Input) string {
	budget, leases := "the budget", s.Leases.Of(s.Node.Pool)
	if s.Node.Pool != "" {
		budget += " pool " + s.Node.Pool
	}
	if holders := holders(leases); holders != "" {
		return fmt.Sprintf("all %d Leases of %s are held (by %s)", s.Leases.Size(s.Node.Pool), budget, holders)
	}
	return "the size of " + budget + " is 0. hint: set the annotation deviceconfig.org/budget-size of its first Lease to 1 or more"
}

// holders names the nodes that hold leases.
func holders(all []Lease) string {
	var names []string
	for _, l := range all {
		if name, _, held := strings.Cut(l.Holder, "/"); held {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return few(slices.Compact(names))
}

// few joins at most five names.
func few(names []string) string {
	if more := len(names) - 5; more > 0 {
		names = append(names[:5:5], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// holds reports whether the operation has a lease.
func holds(s Input) bool {
	return s.Leases != nil && slices.ContainsFunc(s.Leases.All, func(l Lease) bool { return l.Holder == Holder(s.Node.Name, s.Node.Op.ID) })
}

// begin returns the patch that marks, cordons and taints the node.
func begin(s Input, op Operation) Step {
	op.Phase, op.Since = Draining, s.Now
	op.WasCordoned, op.WasTainted = s.Node.Cordoned, s.Node.Tainted
	op.Operands, op.Counted, op.Sliced = nil, offers(s.Node.Allocatable), s.Pods.Driver && len(s.Pods.Slices) > 0
	for _, p := range s.Pods.Operands {
		// Operands that are not ready before are not awaited.
		if p.Owner != "" && p.Ready && !slices.Contains(op.Operands, p.Owner) {
			op.Operands = append(op.Operands, p.Owner)
		}
	}
	slices.Sort(op.Operands)
	op.Paused = pausable(s.Node)
	event := &Event{Reason: InProgressReason, Note: "draining pods that use GPUs, for profile " + op.Profile, Key: op.ID}
	cordon, taint := true, true
	if devices, ok := spared(s); ok {
		op.Phase, op.GPUs, op.Devices = Sparing, s.Plan.GPUs, devices
		cordon, taint = s.Node.Cordoned, s.Node.Tainted
		event.Note = fmt.Sprintf("draining pods that use %d of %d devices, for profile %s", len(devices), len(s.Pods.Devices), op.Profile)
	}
	if last := s.Node.Last; last != nil && last.Target == op.Target && last.State == Failure {
		event.Reason = Retrying
	}
	return Step{Act: Patch{Op: &op, State: InProgress, Cordon: cordon, Taint: taint, Event: event},
		Condition: isFalse("Draining", event.Note)}
}

// pausable returns the labels that select operands, with their values. A label that is absent, or
// that an administrator or another manager has set, stays as it is.
func pausable(n Node) map[string]string {
	var out map[string]string
	for _, label := range n.vendor().Labels() {
		value := n.Labels[label]
		if value == "" || value == "false" || strings.HasPrefix(value, "paused-for-") {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[label] = value
	}
	return out
}

// unpaused reports whether a label that the operation pauses has its value from before.
func unpaused(n Node, op Operation) bool {
	for label, value := range op.Paused {
		if op.Pauses(label) && n.Labels[label] == value {
			return true
		}
	}
	return false
}

// interrupted returns the step of a drain that cannot go on: it is undone, or waits until the inputs are read.
func interrupted(s Input, op Operation, read bool) (step Step, ok bool) {
	target, selected := s.Target()
	switch {
	case !selected || target != op.Target:
		return undo(s, op, nil), true
	case s.Host.Down != "" && s.overdue(op):
		return undo(s, op, &Outcome{Reason: PartitionFailure, Retry: true, Message: "cannot query dcm on the host: " + s.Host.Down}), true
	case s.Host.Down != "" || !read:
		return wait(s, "Looking", "reading what the profile would change"), true
	case s.Plan.Refusal != nil:
		return undo(s, op, s.Plan.Refusal), true
	case !s.Plan.Changes, exceeds(s, op):
		return undo(s, op, nil), true
	}
	return Step{}, false
}

// draining waits until no pod uses the GPUs. It undoes the beginning after the time limit,
// or if the change is no longer wanted.
func draining(s Input, op Operation) Step {
	if step, ok := interrupted(s, op, s.Plan != nil && s.Pods != nil); ok {
		return step
	}
	if !s.Node.Cordoned || !s.Node.Tainted || unpaused(s.Node, op) {
		return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: true}, Condition: isFalse("Draining", "the node was uncordoned during the drain; it is cordoned again")}
	}
	s.Pods = affected(s, op)
	going := going(s.Pods.Operands)
	left := slices.Concat(s.Pods.Work, going)
	condition := isFalse("Draining", "waits for "+list(left))
	switch {
	case len(s.Pods.Work) == 0 && !claimed(going) && !op.Emptied && len(op.Paused) > 0:
		op.Emptied = true
		return keep(op, "Draining", "no pod uses the GPUs; stopping the operands")
	case len(left) == 0:
		op.Phase, op.Since = Applying, s.Now
		return Step{Act: Patch{Op: &op, State: InProgress, Cordon: true, Taint: true}, Condition: isFalse("Applying", "dcm changes the GPUs")}
	case s.overdue(op):
		return undo(s, op, undrained(s, going))
	case len(s.Pods.Work) == 0:
		if due := due(going); len(due) > 0 {
			return Step{Act: Delete{Pods: due}, Condition: condition}
		}
		return Step{Act: Wait{For: s.Times.Look}, Condition: condition}
	}
	return evict(s, condition)
}

// overdue reports whether the drain has reached its time limit.
func (s Input) overdue(op Operation) bool {
	limit := s.drainLimit()
	return limit > 0 && s.Now.Sub(op.Since) >= limit
}

// drainLimit is the time limit for the drain of the node; 0 for none.
func (s Input) drainLimit() time.Duration {
	if s.Node.Drain != nil {
		return *s.Node.Drain
	}
	return s.Times.Drain
}

// undrained names the pods that did not leave in time, with a hint. Operands are deleted after
// all other pods, so they count only then.
func undrained(s Input, operands []Pod) *Outcome {
	pods, what, hint := s.Pods.Work, "use", "delete them, or widen their disruption budgets"
	if len(pods) == 0 {
		pods, what, hint = operands, "serve", "delete them"
	}
	if !slices.ContainsFunc(pods, func(p Pod) bool { return !p.Leaving }) {
		hint = "check why they do not terminate"
		if claimed(pods) && !s.Pods.Driver {
			hint = "start the DRA driver: the kubelet needs it to end pods with claims"
		}
	}
	return &Outcome{Reason: PartitionFailure, Retry: true,
		Message: fmt.Sprintf("pods that %s GPUs did not leave within %s: %s. hint: %s; next try in %s", what, s.drainLimit(), list(pods), hint, s.Times.Retry)}
}

// evict requests the evictions that are possible now.
func evict(s Input, condition Condition) Step {
	var due []Pod
	wait := s.Times.Look
	for _, p := range s.Pods.Work {
		switch pause := p.NotBefore.Sub(s.Now); {
		case p.Leaving || p.Mirror || p.Owner == "":
		case pause <= 0:
			due = append(due, p)
		default:
			wait = min(wait, pause)
		}
	}
	if len(due) > 0 {
		return Step{Act: Evict{Pods: due}, Condition: condition}
	}
	return Step{Act: Wait{For: wait}, Condition: condition}
}

// undo reverts the beginning. A nil reason means that nothing has failed.
func undo(s Input, op Operation, why *Outcome) Step {
	patch := Patch{State: "", Cordon: op.WasCordoned, Taint: op.WasTainted}
	if s.Node.Last != nil {
		patch.State = s.Node.Last.State
	}
	if why == nil {
		return Step{Act: patch, Condition: resting(s)}
	}
	patch.Last = &Last{Target: op.Target, State: Failure, At: s.Now, Outcome: why}
	patch.State = Failure
	patch.Event = &Event{Warning: true, Reason: why.Reason, Note: why.Message, Key: op.ID}
	return Step{Act: patch, Condition: isFalse(why.Reason, why.Message)}
}

// list names a few pods with the reasons why they stay.
func list(pods []Pod) string {
	var names []string
	for _, p := range pods {
		name := p.Namespace + "/" + p.Name
		switch {
		case p.Leaving:
			name += " (terminating)"
		case p.Mirror:
			name += " (static pod: remove its file on the node)"
		case p.Owner == "":
			name += " (no controller: delete it by hand)"
		case p.Refused != "":
			name += " (" + p.Refused + ")"
		}
		names = append(names, name)
	}
	return few(names)
}
