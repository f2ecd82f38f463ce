package slurm

import (
	"context"
	"slices"
	"strings"

	"dcm/internal/sanitize"
)

// Mark begins each reason that dcm sets.
const Mark = "dcm: "

// replaceable begin the reasons that dcm may replace: its own, and those of slurmctld and slurmd that end
// with a registration or that dcm explains better.
var replaceable = []string{Mark, helperFailed, "gres/", "Not responding", "Node unexpectedly rebooted", "Node features"}

// Foreign reports whether an administrator or another program has set the reason of the node.
func (n Node) Foreign() bool {
	return n.Reason != "" && !slices.ContainsFunc(replaceable, func(p string) bool { return strings.HasPrefix(n.Reason, p) })
}

// Drained reports whether slurmctld starts no job on the node until the administrator resumes it.
func (n Node) Drained() bool { return strings.Contains(n.State, "DRAIN") }

// DrainFor drains the node, with a reason of dcm. A foreign reason stays. DrainFor logs each change, and
// the reason that it does not set. changed is whether it has changed the record.
func (c Controller) DrainFor(ctx context.Context, reason string, log func(string)) (changed bool, err error) {
	reason = sanitize.Text(reason)
	n, err := c.Node(ctx)
	switch {
	case err != nil || n.Drained() && n.Reason == reason:
		return false, err
	case n.Drained() && n.Foreign():
		log(c.NodeName + " stays drained: " + n.Reason + " (" + reason + ")")
		return false, nil
	case n.Foreign(): // down, and resumed by slurmd's registration if ReturnToService is 2
		reason = n.Reason + "; " + reason
	}
	if err := c.update(ctx, "State=DRAIN", "Reason="+reason); err != nil {
		return false, err
	}
	log("drained " + c.NodeName + ": " + reason)
	return true, nil
}

// ResumeFrom resumes a node that dcm has drained for this reason. If its reason has changed meanwhile, the node
// stays drained. why is logged.
func (c Controller) ResumeFrom(ctx context.Context, reason, why string, log func(string)) error {
	waiting, cancel := context.WithTimeout(ctx, slurmdTimeout)
	defer cancel()
	n, err := c.Await(waiting, func(n Node) bool { return !n.Invalid() })
	if err != nil || n.Reason != reason {
		return err
	}
	if err := c.update(ctx, "State=RESUME"); err != nil {
		return err
	}
	log("resumed " + c.NodeName + ": " + why)
	return nil
}
