package slurm

import (
	"context"
	"errors"
	"time"
)

// Report is the state of this node that slurmctld must know.
type Report struct {
	Features map[string]string           // dcm's features, as [Features] returns them
	Active   []string                    // the features that the GPUs have
	Failed   string                      // why slurmd's last change failed; "" if it did not
	Reload   func(context.Context) error // reloads slurmd
	Log      func(string)                // is called for each completed action
}

// slurmdTimeout is how long slurmd may take to report that its helper failed, or to register.
const slurmdTimeout = time.Minute

// Report updates slurmctld's record of the node. slurmd keeps the features that it saw last,
// and slurmctld drains a node whose slurmd registers with other features than slurmctld has.
// So the record is updated first. Then slurmd is reloaded and reads the features again.
func (c Controller) Report(ctx context.Context, r Report) error {
	n, err := c.awaitReason(ctx, r.Failed != "")
	if err != nil {
		return err
	}
	if len(r.Active) == 0 {
		return c.reportNone(ctx, n, r)
	}
	var errs []error
	if !n.Has(r.Active, r.Features) {
		errs = append(errs, c.Activate(ctx, r.Active))
		if errs[0] == nil {
			r.Log("set the active features of " + c.NodeName + " in slurmctld")
			errs = append(errs, r.Reload(ctx))
		}
	}
	if r.Failed != "" {
		errs = append(errs, c.drain(ctx, r, "dcm: "+r.Failed))
	}
	return errors.Join(errs...)
}

// awaitReason waits, after a failure, until slurmd has set its own reason: it would replace
// dcm's.
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
func (c Controller) reportNone(ctx context.Context, n Node, r Report) error {
	why := "the GPUs match no feature"
	if r.Failed != "" {
		why = r.Failed + "; " + why
	}
	if n.Reason == "dcm: "+why {
		return nil
	}
	return c.drain(ctx, r, "dcm: "+why)
}

// drain drains the node and waits until slurmd, which was reloaded, has registered again: only
// then the node can be resumed.
func (c Controller) drain(ctx context.Context, r Report, reason string) error {
	if err := c.Drain(ctx, reason); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, slurmdTimeout)
	defer cancel()
	_, err := c.Await(waiting, func(n Node) bool { return !n.Invalid() })
	r.Log("drained " + c.NodeName + ": " + reason)
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil // slurmd is down; it registers when it starts
	}
	return err
}
