package daemon

import (
	"context"
	"slices"
)

// With require = true systemd does not start the clients again after a run that
// failed: their start jobs fail with it. The run that then succeeds restarts what
// is active, and that they no longer are. So what was up before the first of these
// runs is owed to them: it is in the state before the run begins, outlives the
// daemon there, and is started when the profile is on the GPUs.

// owing returns what is owed if a run that stops these units fails.
func (p *pass) owing(bounced []string) []string {
	if !p.settings.Require {
		return nil
	}
	owed := slices.Concat(p.owed, bounced)
	slices.Sort(owed)
	return slices.Compact(owed)
}

// pay returns what is still owed at the end of a pass.
func (p *pass) pay(ctx context.Context, o outcome) []string {
	switch {
	case o.failure != nil && p.settings.Require && p.owes != nil:
		return p.owes
	case o.failure != nil && p.settings.Require, o.drift != nil:
		return p.owed
	case len(p.owed) > 0 && ctx.Err() == nil:
		p.repay(ctx)
	}
	return nil
}

// repay starts what is owed. A unit that cannot be started is systemd's to tell of.
func (p *pass) repay(ctx context.Context) {
	u, err := p.connect(ctx)
	if err != nil {
		p.Log.Error("cannot start the clients that a failed run kept down", "units", p.owed, "error", err)
		return
	}
	p.Log.Info("starting the clients that a failed run kept down", "units", p.owed)
	for _, name := range p.owed {
		if err := u.Start(ctx, name); err != nil {
			p.Log.Error(err.Error())
		}
	}
}
