package slurm

import (
	"context"
	"errors"
)

// Report is the state of this node that slurmctld must know.
type Report struct {
	Features map[string]string           // dcm's features, as [Features] returns them
	Active   []string                    // the features whose profile the GPUs match
	Failed   string                      // why the last change that slurmd requested failed; "" if it did not
	Reload   func(context.Context) error // reloads slurmd
	Log      func(string)                // called after each action
}

// Report updates slurmctld's record of the node. slurmctld drains a node if its slurmd registers with
// features that differ from the record, and slurmd registers with the features that it read at its
// start. So Report first updates the record and then reloads slurmd.
func (c Controller) Report(ctx context.Context, r Report) error {
	n, err := c.awaitReason(ctx, r.Failed != "")
	if err != nil {
		return err
	}
	if len(r.Active) == 0 {
		return c.reportNone(ctx, r)
	}
	var errs []error
	if !n.Has(r.Active, r.Features) {
		errs = append(errs, c.Activate(ctx, r.Active))
		if errs[0] == nil {
			r.Log("set the active features of " + c.NodeName + " in slurmctld")
			errs = append(errs, r.Reload(ctx))
		}
	}
	switch {
	case r.Failed != "":
		errs = append(errs, c.drain(ctx, r, Mark+r.Failed))
	case errors.Join(errs...) == nil && n.Drained() && n.Reason == Mark+noFeature:
		errs = append(errs, c.ResumeFrom(ctx, Mark+noFeature, "the GPUs match a feature again", r.Log))
	}
	return errors.Join(errs...)
}

// noFeature is the reason of a node that dcm drains, and resumes when its GPUs match a feature again.
const noFeature = "the GPUs match no feature"

// awaitReason waits, after a failure, until slurmd has set its own reason. Otherwise slurmd would
// replace the reason that dcm sets.
func (c Controller) awaitReason(ctx context.Context, failed bool) (Node, error) {
	if !failed {
		return c.Node(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, slurmdTimeout)
	defer cancel()
	n, err := c.Await(waiting, Node.HelperFailed)
	if waiting.Err() != nil && ctx.Err() == nil {
		return n, nil // slurmd was killed, or has set another reason
	}
	return n, err
}

// reportNone drains a node that has none of the features: slurmctld keeps the previous
// features, and an empty list does not clear them.
func (c Controller) reportNone(ctx context.Context, r Report) error {
	why := noFeature
	if r.Failed != "" {
		why = r.Failed + "; " + why
	}
	return c.drain(ctx, r, Mark+why)
}

// drain drains the node and waits until slurmd has registered again after its reload. Before that, the
// node cannot be resumed.
func (c Controller) drain(ctx context.Context, r Report, reason string) error {
	var said string // logged when the node can be resumed
	changed, err := c.DrainFor(ctx, reason, func(text string) { said = text })
	if !changed {
		if said != "" {
			r.Log(said)
		}
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, slurmdTimeout)
	defer cancel()
	_, err = c.Await(waiting, func(n Node) bool { return !n.Invalid() })
	r.Log(said)
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil // slurmd is down; it registers when it starts
	}
	return err
}
