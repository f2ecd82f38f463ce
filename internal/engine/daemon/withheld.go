package daemon

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// With require = true, a client starts only if the profile is on its GPUs. A failed dcm-apply.service
// keeps all clients down. After a change of single GPUs it is active, and the clients of GPUs that failed
// are withheld: their drop-ins have an assertion. The daemon withholds the clients of a change before it
// requests the run, so that no end of the daemon or the run lets them start. The run releases those whose
// GPUs have succeeded, when it has published the partitions.

// mayFailPartly reports whether clients require the profile on their own GPUs only.
func (s Settings) mayFailPartly() bool { return s.Require && s.Order.PerGPU }

// clientNames returns the clients by the names of their drop-ins.
func (s Settings) clientNames() []string {
	out := slices.Clone(s.Order.Clients)
	for _, r := range s.Order.Reserved {
		if !slices.Contains(out, r.Unit) {
			out = append(out, r.Unit)
		}
	}
	return out
}

// withheld returns the clients to withhold for a change, with the GPUs that have to succeed.
func (s *Scope) withheld(settings Settings) map[string][]partition.Address {
	if !settings.mayFailPartly() {
		return nil
	}
	out := make(map[string][]partition.Address)
	for _, unit := range settings.clientNames() {
		if gpus := s.Concerning(unit); len(gpus) > 0 {
			out[unit] = gpus
		}
	}
	return out
}

// permitsScope reports whether a change can be made by dcm-change.service. Clients that require the
// profile need an active dcm-apply.service: a start of one would start it while others are up.
func (s Settings) permitsScope(ctx context.Context, pid1 PID1) (bool, error) {
	if !s.mayFailPartly() {
		return true, nil
	}
	return isApplied(ctx, pid1)
}

// isApplied reports whether dcm-apply.service is active.
func isApplied(ctx context.Context, pid1 PID1) (bool, error) {
	own, err := pid1.States.List(ctx, []string{unitname.Apply}, systemd.States)
	return len(own) > 0 && own[0].Active == "active", err
}

// activateRun starts dcm-apply.service if the GPUs match the profile and it is not active, as after an
// installation without a reboot. Its run changes nothing, and stops no unit. Otherwise the next change would
// concern all clients, see [Settings.permitsScope].
func (p *pass) activateRun(ctx context.Context) {
	if !p.settings.mayFailPartly() {
		return
	}
	pid1, err := p.conn.open(ctx)
	applied := false
	if err == nil {
		applied, err = isApplied(ctx, pid1)
	}
	if err == nil && !applied {
		p.log.Info("starting "+unitname.Apply+", since clients require it; the GPUs match the profile already", "unit", unitname.Apply)
		ctx, cancel := p.conn.limit(ctx, p.Limits.Run)
		defer cancel()
		if err = pid1.Jobs.Start(ctx, unitname.Apply); err == nil {
			_, err = pid1.States.Settle(ctx, []string{unitname.Apply}, systemd.Unit.Settled)
		}
	}
	if err != nil {
		p.log.Warn("cannot start "+unitname.Apply+", so the next change restarts all clients", "error", err)
	}
}

// release releases the clients that are withheld needlessly: a run or a daemon was killed before it did
// so, or the settings have changed.
func (p *pass) release(ctx context.Context, now Observation) error {
	if now.Diff == 0 || !p.settings.mayFailPartly() {
		return p.Withheld.Clear()
	}
	withheld, err := p.Withheld.Read()
	if err != nil || len(withheld) == 0 {
		return err
	}
	up, err := p.upClients(ctx)
	if err != nil {
		return err
	}
	clients := p.settings.clientNames()
	return p.Withheld.Keep(func(unit string, gpu partition.Address) bool {
		return slices.Contains(now.GPUs, gpu) && slices.Contains(clients, unit) && !slices.Contains(up, unit)
	})
}

// upClients returns the active clients: the daemon was killed after it had withheld them, and before it
// requested their restart.
func (p *pass) upClients(ctx context.Context) ([]string, error) {
	pid1, err := p.conn.open(ctx)
	if err != nil {
		return nil, err
	}
	clients, err := listClients(ctx, pid1, p.settings.clientNames())
	if err != nil {
		return nil, err
	}
	return names(slices.DeleteFunc(clients, func(c systemd.Unit) bool { return !c.Up() })), nil
}

// withheldFor returns the client as which a unit is withheld, "" if it is not.
func withheldFor(unit string, withheld map[string][]partition.Address) string {
	for _, name := range []string{unit, unitname.Template(unit)} {
		if _, ok := withheld[name]; ok {
			return name
		}
	}
	return ""
}

// withheld returns the clients of a restart that an earlier run has left down, and that start after it.
func (p pendingStarts) withheld(s Settings, r restart) []string {
	var out []string
	for _, c := range r.clients {
		if _, pending := p[c.ID]; pending && s.mayFailPartly() && !c.Up() && !slices.Contains(ids(r.stopped), c.ID) {
			out = append(out, c.ID)
		}
	}
	return out
}

// startable returns the units that can start after a failed run: those that do not need it, and those that
// do, if the profile is on their GPUs.
func (s *starter) startable(ctx context.Context, pid1 PID1, units []down) ([]down, error) {
	applied, withheld := false, map[string][]partition.Address(nil)
	if s.partly {
		var err error
		if applied, err = isApplied(ctx, pid1); err == nil && applied {
			withheld, err = s.withheld()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot determine which clients can start: %w", err)
		}
	}
	return slices.DeleteFunc(units, func(d down) bool {
		needs := func(name string) bool { return name == unitname.Apply && !applied || withheldFor(name, withheld) != "" }
		return slices.ContainsFunc(append(d.end.Needs, d.ID), needs)
	}), nil
}
