package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// starter starts the clients that a failed run has left down.
type starter struct {
	conn    *connection
	log     *passLog
	require bool          // see [Settings.Require]
	partly  bool          // with require: a client needs the profile on its own GPUs only
	clients time.Duration // how long to wait for them
	pending pendingStarts // of earlier runs
	taken   pendingStarts // pending, and the units that the run of this pass has stopped; nil if there is no run or it succeeded
	pinned  bool          // PID 1 was asked to keep units loaded

	driverUnloaded func() bool
	withheld       func() (map[string][]partition.Address, error)
}

// finish starts pending units if the profile is on the GPUs, and records which are still
// pending.
func (s *starter) finish(ctx context.Context, r *result) {
	failed := r.failure != nil || r.retryReserve != nil
	switch {
	case failed && s.taken != nil:
		r.pending, s.pending = s.taken, s.taken
		// With require = false, the clients start as soon as the driver is loaded; with require =
		// true, only when the profile is on their GPUs too.
		if r.failure == nil || (s.partly || !s.require) && !s.driverUnloaded() {
			_ = s.startPending(ctx, r)
		}
	case r.drift != nil, ctx.Err() != nil:
		r.pending = s.pending
	case r.failure != nil && s.driverUnloaded():
		r.pending = s.pending
	default:
		if err := s.startPending(ctx, r); err != nil || r.failure != nil || r.incomplete() {
			s.keepAll(r)
		}
	}
}

// keepAll keeps all units pending until the profile is on the GPUs.
func (s *starter) keepAll(r *result) {
	all := maps.Clone(s.pending)
	maps.Copy(all, r.pending) // with what they wait for
	r.pending = all
}

// rests reports whether PID 1 is not starting or stopping a unit. A service that waits for its automatic restart rests.
func rests(u systemd.Unit) bool { return u.Settled() || u.Restarting() }

// leave keeps those units pending that PID 1 is starting or stopping, and returns the others.
func (s *starter) leave(units []systemd.Unit, r *result) []systemd.Unit {
	var settled []systemd.Unit
	for _, u := range units {
		if rests(u) {
			settled = append(settled, u)
			continue
		}
		s.keep(u.ID, u.ID, r)
	}
	return settled
}

// keep keeps a unit pending until PID 1 has started or stopped the one that it waits for.
func (s *starter) keep(unit, waitsFor string, r *result) {
	if r.pending == nil {
		r.pending = make(pendingStarts)
	}
	start := s.pending[unit]
	start.WaitsFor = waitsFor
	r.pending[unit] = start
	r.busy = append(r.busy, waitsFor)
}

// awaitNeeded decides for the units that were stopped and not started since whether a unit that they
// require was the reason. Those whose reason starts again stay pending.
func (s *starter) awaitNeeded(ctx context.Context, states UnitReader, lying []down, r *result) error {
	waits, err := s.dependenciesFailed(ctx, states, lying)
	for unit, need := range waits {
		s.keep(unit, need, r)
	}
	return err
}

// dependenciesFailed records the units whose start job ended with "dependency", see [cancelledStarts].
func (s *starter) dependenciesFailed(ctx context.Context, states UnitReader, lying []down) (waits map[string]string, err error) {
	same := slices.DeleteFunc(slices.Clone(lying), func(d down) bool { return !s.pending.notStarted(d.Unit) })
	starts, waits, err := cancelledStarts(ctx, states, same)
	for _, u := range starts {
		s.pending.record(u, runstate.DependencyFailed)
	}
	return waits, err
}

// startPending starts units that an earlier run has left down. It logs the error.
func (s *starter) startPending(ctx context.Context, r *result) error {
	if len(s.pending) == 0 {
		return nil
	}
	err := s.start(ctx, r)
	if err != nil {
		s.log.Error("cannot start the clients that a failed run left down", "units", s.pending.names(), "error", err)
	}
	return err
}

// pin has PID 1 keep the units loaded that a failed run would leave pending.
func (s *starter) pin(ctx context.Context, u UnitPinner) {
	if len(s.taken) == 0 {
		return
	}
	s.pinned = true
	if err := u.Pin(ctx, s.taken.names()); err != nil {
		s.log.Warn("cannot make systemd keep the state of stopped clients", "error", err)
	}
}

// unpin undoes pin when no unit is pending.
func (s *starter) unpin(ctx context.Context, r result) {
	if len(r.pending) > 0 || !s.pinned && len(s.pending) == 0 {
		return
	}
	pid1, err := s.conn.open(ctx)
	if err == nil {
		err = pid1.Pins.Unpin(ctx)
	}
	if err != nil {
		s.log.Warn("cannot release the state of the clients in systemd", "error", err)
	}
}

// start starts the missing units, and compares all pending ones with their states before. systemd
// logs why a unit cannot be started.
func (s *starter) start(ctx context.Context, r *result) error {
	pid1, err := s.conn.open(ctx)
	if err != nil {
		return err
	}
	now, err := pid1.States.List(ctx, s.pending.names(), systemd.All)
	if err != nil {
		return err
	}
	now = s.leave(now, r)
	s.pending.forget(now)
	lying, err := downUnits(ctx, pid1.States, now)
	if err != nil {
		return err
	}
	if err := s.awaitNeeded(ctx, pid1.States, lying, r); err != nil {
		return err
	}
	switch {
	case r.failure != nil || r.incomplete():
		if lying, err = s.startable(ctx, pid1, lying); err != nil {
			return err
		}
	case r.retryReserve != nil: // and units that were skipped for their partitions
		lying = slices.DeleteFunc(lying, func(d down) bool { return d.end.Skipped })
	}
	s.hintUnknown(lying, r)
	missing := s.pending.missing(lying, s.require)
	before, err := pid1.States.List(ctx, []string{unitname.Apply}, systemd.All)
	if err != nil {
		return err
	}
	s.conn.clearCounters(ctx, pid1.Jobs, missing) // before the first start: a socket may start its service immediately
	for _, name := range missing {
		s.log.Info("starting "+name+", "+s.pending.reason(name), "unit", name)
		if err := pid1.Jobs.Start(ctx, name); err != nil {
			s.log.Error(err.Error())
		}
	}
	if now, err = s.settle(ctx, pid1, missing, r); err != nil {
		return fmt.Errorf("cannot wait for the clients: %w", err)
	}
	if err := s.failedWithRun(ctx, pid1, before, now, r); err != nil {
		return err
	}
	for _, n := range now {
		c := compare(systemd.Unit{Name: n.ID, ID: n.ID, Active: "active", Invocation: s.pending[n.ID].Invocation}, n)
		s.log.compared(c)
		r.started = append(r.started, c)
	}
	if r.failure == nil && r.retryReserve == nil && r.problem == nil {
		r.problem = notBack(r.started)
	}
	return nil
}

// settle waits for the units that were started. If a unit that one of them requires has failed at its first start, it
// starts that one again. It keeps those pending that PID 1 is still starting, and returns the others.
func (s *starter) settle(ctx context.Context, pid1 PID1, started []string, r *result) ([]systemd.Unit, error) {
	now, err := s.await(ctx, pid1, started)
	if err != nil {
		return nil, err
	}
	lying, err := downUnits(ctx, pid1.States, now)
	if err != nil {
		return nil, err
	}
	same := slices.DeleteFunc(lying, func(d down) bool { return s.pending[d.ID].Invocation != d.Invocation })
	again, waits, err := cancelledStarts(ctx, pid1.States, same)
	for unit, need := range waits {
		s.keep(unit, need, r)
	}
	if err != nil {
		return nil, err
	}
	now = slices.DeleteFunc(now, func(u systemd.Unit) bool { return waits[u.ID] != "" })
	for _, u := range again {
		s.log.Info("starting "+u.ID+" again: a unit that it requires failed at its first start", "unit", u.ID)
		if err := pid1.Jobs.Start(ctx, u.ID); err != nil {
			s.log.Error(err.Error())
		}
	}
	if len(again) > 0 {
		if now, err = s.await(ctx, pid1, names(now)); err != nil {
			return nil, err
		}
	}
	return s.leave(now, r), nil
}

// await waits until PID 1 has started or stopped units, or a time limit ends, and returns them. An error means that
// their states cannot be read.
func (s *starter) await(ctx context.Context, pid1 PID1, units []string) ([]systemd.Unit, error) {
	ctx, cancel := s.conn.limit(ctx, s.clients)
	defer cancel()
	now, err := pid1.States.Settle(ctx, units, systemd.Unit.Settled)
	if len(now) == 0 || err == nil {
		return now, err
	}
	s.log.Warn("some clients are still starting", "error", err)
	return now, nil
}

// failedWithRun returns an error if the start of a unit has started dcm-apply.service, which failed. This is a failure of
// the run and not of the unit, which stays pending.
func (s *starter) failedWithRun(ctx context.Context, pid1 PID1, before, started []systemd.Unit, r *result) error {
	i := slices.IndexFunc(started, func(u systemd.Unit) bool { return !u.Up() && s.pending[u.ID].Invocation == u.Invocation })
	if !s.require || i < 0 || r.failure != nil {
		return nil
	}
	run, err := pid1.States.List(ctx, []string{unitname.Apply}, systemd.All)
	if err != nil || len(run) == 0 || run[0].Active != "failed" || len(before) > 0 && before[0].Invocation == run[0].Invocation {
		return err
	}
	text := unitname.Apply + ", which " + started[i].ID + " requires, failed: " + whyEnded(run[0])
	r.failure = &runstate.Error{Text: text, Hint: "see journalctl -u " + unitname.Apply, Transient: true}
	return errors.New(text)
}

// hintUnknown reports the units that PID 1 has unloaded: it no longer knows how they stopped.
func (s *starter) hintUnknown(lying []down, r *result) {
	for _, l := range lying {
		if l.Invocation == "" && s.pending[l.ID].Invocation != "" {
			text := l.ID + " was active before a run that failed and is " + l.Active + "; it is not started, since systemd does not know why it stopped"
			s.log.Warn(text, "unit", l.ID)
			r.hints = append(r.hints, text)
		}
	}
}

// downUnits returns the units that are not active, and how each stopped or failed.
func downUnits(ctx context.Context, u UnitReader, units []systemd.Unit) ([]down, error) {
	return endedUnits(ctx, u, units, func(u systemd.Unit) bool { return !u.Up() })
}

// endedUnits returns the units of a kind, and how each stopped or failed.
func endedUnits(ctx context.Context, u UnitReader, units []systemd.Unit, is func(systemd.Unit) bool) ([]down, error) {
	var out []down
	for _, now := range units {
		if !is(now) || now.Load != "loaded" {
			continue
		}
		end, err := u.End(ctx, now.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, down{now, end})
	}
	return out, nil
}

// cancelledStarts returns the units whose start job ended with "dependency": a unit that they require failed
// at its first start. systemd starts that one again, but not those that require it. waits are
// units for whose start others wait. All the units were stopped, and not started since.
func cancelledStarts(ctx context.Context, states UnitReader, units []down) (starts []systemd.Unit, waits map[string]string, err error) {
	waits = make(map[string]string)
	starting := func(unit string) bool {
		return slices.ContainsFunc(starts, func(u systemd.Unit) bool { return u.ID == unit })
	}
	for found := true; found; {
		found = false
		for _, u := range units {
			if starting(u.ID) || waits[u.ID] != "" {
				continue
			}
			needed, err := states.List(ctx, u.end.Needs, systemd.All)
			if err != nil {
				return nil, nil, err
			}
			for _, n := range needed {
				switch {
				case n.Restarting():
					waits[u.ID] = n.ID
				case waits[n.ID] != "":
					waits[u.ID] = waits[n.ID]
				case starting(n.ID), n.Up() && n.Restarts > 0:
					starts = append(starts, u.Unit)
				default:
					continue
				}
				found = true
			}
		}
	}
	return slices.DeleteFunc(starts, func(u systemd.Unit) bool { return waits[u.ID] != "" }), waits, nil
}

// clientsAfter returns the clients of a state after a pass.
func clientsAfter(before []runstate.Client, r result) []runstate.Client {
	switch {
	case r.partial:
		before = updated(before, r.clients)
	case r.clients != nil:
		before = r.clients
	}
	return updated(before, r.started)
}
