package slurm

import (
	"context"
	"errors"
	"time"
)

// Telling is what slurmctld is to know of this node.
type Telling struct {
	Features map[string]string // all that dcm answers for, as [Features] has them
	Active   []string          // those that the GPUs have
	Failed   string            // why the change that slurmd has asked for failed; "" if none has
	Reload   func(context.Context) error
	Said     func(string) // each thing that was done
}

// overdue is how long slurmd may take to say that its helper has failed.
const overdue = time.Minute

// Tell makes slurmctld's record of the node true. slurmd keeps the features that it has
// seen last, and slurmctld drains a node whose slurmd registers with others than it has
// itself: so it is told first, and slurmd is then reloaded, which looks anew.
func (c Controller) Tell(ctx context.Context, t Telling) error {
	n, err := c.settled(ctx, t.Failed != "")
	if err != nil {
		return err
	}
	if len(t.Active) == 0 {
		return c.none(ctx, n, t)
	}
	var errs []error
	if !n.Has(t.Active, t.Features) {
		errs = append(errs, c.Activate(ctx, t.Active))
		if errs[0] == nil {
			t.Said("told slurmctld what the GPUs of " + c.Node + " have")
			errs = append(errs, t.Reload(ctx))
		}
	}
	if t.Failed != "" {
		errs = append(errs, c.drain(ctx, t, "dcm: "+t.Failed))
	}
	return errors.Join(errs...)
}

// settled waits, after a failure, until slurmd has given its own reason, which would be
// put in the place of ours.
func (c Controller) settled(ctx context.Context, failed bool) (Node, error) {
	if !failed {
		return c.Look(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, overdue)
	defer cancel()
	n, err := c.Until(waiting, Node.Refused)
	if waiting.Err() != nil && ctx.Err() == nil {
		return n, nil // it was killed, or has given another reason
	}
	return n, err
}

// none: slurmctld would go on with the features that it had, and no empty list makes it
// forget them.
func (c Controller) none(ctx context.Context, n Node, t Telling) error {
	why := "the GPUs are as none of the features says"
	if t.Failed != "" {
		why = t.Failed + "; " + why
	}
	if n.Reason == "dcm: "+why {
		return nil
	}
	return c.drain(ctx, t, "dcm: "+why)
}

// drain returns when slurmd, which was reloaded, has registered again: the node can be
// resumed from then on.
func (c Controller) drain(ctx context.Context, t Telling, reason string) error {
	if err := c.Drain(ctx, reason); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, overdue)
	defer cancel()
	_, err := c.Until(waiting, func(n Node) bool { return !n.Invalid() })
	t.Said("drained " + c.Node + ": " + reason)
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil // slurmd is down, say, and registers when it is up
	}
	return err
}
