package daemon

import (
	"context"
	"slices"
)

// A run that fails in the middle of a driver reload leaves clients that systemd
// started again without a device, and they end at once. With require = true they
// are not even started: their start jobs fail with the run. The run that then
// succeeds restarts what is active, and that they no longer are. So what was up
// before the first of these runs is owed to them: it is in the state before the run
// begins, outlives the daemon there, and is started when the profile is on the GPUs.

// owing returns what is owed if a run that stops these units fails.
func (p *pass) owing(bounced []string) []string {
	owed := slices.Concat(p.owed, bounced)
	slices.Sort(owed)
	return slices.Compact(owed)
}

// pay returns what is still owed at the end of a pass.
func (p *pass) pay(ctx context.Context, o outcome) []string {
	switch {
	case o.failure != nil && p.owes != nil:
		return p.owes
	case o.failure != nil, o.drift != nil:
		return p.owed
	case len(p.owed) > 0 && ctx.Err() == nil:
		p.repay(ctx)
	}
	return nil
}

// repay starts what is owed and down. A unit that cannot be started is systemd's to
// tell of.
func (p *pass) repay(ctx context.Context) {
	down, u, err := p.down(ctx)
	if err != nil {
		p.Log.Error("cannot start the clients that a failed run kept down", "units", p.owed, "error", err)
		return
	}
	for _, name := range down {
		p.Log.Info("starting "+name+", which a failed run kept down", "unit", name)
		if err := u.ResetFailed(ctx, name); err != nil {
			p.Log.Warn("cannot clear the start counter", "unit", name, "error", err)
		}
		if err := u.Start(ctx, name); err != nil {
			p.Log.Error(err.Error())
		}
	}
}

// down returns those of the owed units that the run has left down. One that is
// inactive without having failed was stopped by somebody, unless it is required
// that it waits for the profile.
func (p *pass) down(ctx context.Context) ([]string, Units, error) {
	u, err := p.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	units, err := u.Units(ctx, p.owed)
	var out []string
	for _, now := range units {
		if now.Active == "failed" || p.settings.Require && now.Active == "inactive" {
			out = append(out, now.Name)
		}
	}
	return out, u, err
}
