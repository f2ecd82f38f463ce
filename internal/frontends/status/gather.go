package status

import (
	"context"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Gather reads all parts concurrently, each within its own time limit, and evaluates them. It
// never fails: a part that cannot be read is hidden.
func Gather(ctx context.Context, now time.Time, s Sources) Account {
	a := &Account{Version: Version, Taken: now, Host: s.Host, DCM: s.DCM}
	gpus, units, holders := begin(ctx, s.GPUs), begin(ctx, s.Units), begin(ctx, s.Holders)
	reserved, confined := begin(ctx, s.Reserve), begin(ctx, s.Confined)
	state, run, known, held := begin(ctx, s.Daemon), begin(ctx, s.Run), begin(ctx, s.Known), begin(ctx, s.Held)

	saved := take(a, partDaemon, state)
	addDaemon(a, saved)
	settings, broken := s.Settings()
	addSettings(a, settings, broken)
	a.LastRun = take(a, partRun, run)
	addInventory(a, take(a, partGPUs, gpus))
	markLeft(a, saved)
	addUnits(a, units != nil, take(a, partUnits, units))
	addHolders(a, holders != nil, take(a, partHolders, holders))
	addReservations(a, take(a, partReserved, reserved))
	addConfinement(a, take(a, partConfined, confined))
	addHeld(a, take(a, partLeases, held))
	addExpected(a, take(a, partExpected, known))
	if s.Queue != nil {
		a.Queue = s.Queue()
	}
	addPending(a)
	return Evaluate(*a)
}

// answer is a part, or why it cannot be read.
type answer[T any] struct {
	value T
	err   error
}

// begin reads one part in the background. A part that does not answer in time is abandoned,
// since a system call into a hanging driver cannot be cancelled.
func begin[T any](ctx context.Context, read func(context.Context) (T, error)) <-chan answer[T] {
	if read == nil {
		return nil
	}
	answers := make(chan answer[T], 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, PartTimeout)
		defer cancel()
		v, err := sysfs.Within(ctx, func() (T, error) { return read(ctx) })
		answers <- answer[T]{v, err}
	}()
	return answers
}

// take waits for a part. If it cannot be read, take records that and returns what was read.
func take[T any](a *Account, part string, answers <-chan answer[T]) T {
	if answers == nil {
		var none T
		return none
	}
	got := <-answers
	if got.err != nil {
		markUnavailable(a, part, got.err)
	}
	return got.value
}

func markUnavailable(a *Account, part string, err error) {
	a.Hidden = append(a.Hidden, Unavailable{part, err.Error()})
}

// addDaemon adds the daemon's saved state. Its statements about GPUs and clients are replaced later by
// what is read now.
func addDaemon(a *Account, s *runstate.State) {
	if s == nil {
		return
	}
	a.Daemon = Daemon{Phase: s.Phase, Since: s.Since, Retry: s.Retry, Progress: s.Progress, Pending: pendingStarts(s), Config: s.Config}
	if s.Error != nil {
		a.Daemon.Error = &Problem{daemonErrorState(s), s.Error.Text, s.Error.Hint}
	}
	a.Profile.Effective, a.Profile.Source = s.Profile, s.Source
	a.Warnings = append(a.Warnings, s.Warnings...)
	a.Restart = s.Restart
	for _, h := range s.Holders {
		a.Holders = append(a.Holders, holder(h, true))
	}
	for _, c := range s.Clients {
		a.Clients = append(a.Clients, Client{Unit: c.Unit, Load: "loaded", Active: c.Now, Sub: c.Sub, Result: c.Result,
			Restarts: c.Restarts, Ran: true, Before: c.Before, Back: c.Back, Invocation: c.Invocation})
	}
}

// pendingStarts returns the units that the daemon has to start. It tries with its next attempt, unless it waits for a unit.
func pendingStarts(s *runstate.State) (out []PendingStart) {
	for _, p := range s.Pending {
		next := PendingStart{Unit: p.Unit, Since: p.Since, Reason: p.Reason, WaitsFor: p.WaitsFor}
		if p.WaitsFor == "" {
			next.Next = s.Retry
		}
		out = append(out, next)
	}
	return out
}

// daemonErrorState returns the state of the daemon's error.
func daemonErrorState(s *runstate.State) State {
	switch {
	case s.Error.Unseen != nil:
		return Held
	case s.Error.Unmet:
		return Unmet
	}
	if off, ok := offStates()[s.Phase]; ok {
		return off
	}
	if s.Error.Transient {
		return Waiting // dcm-reserve.service is run again
	}
	return Clients // no other error is possible in these phases
}

func addSettings(a *Account, s Settings, err error) {
	a.Profile.Defined = s.Defined
	for _, w := range s.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
	a.Expected = Expected{GPUs: s.Count, By: ByConfiguration}
	switch {
	case err == nil:
		a.Profile.Selected = s.Profile
	default:
		a.Profile.Broken = err.Error()
		if s.Defined == nil {
			return // keep the profile from the daemon's state
		}
	}
	a.Profile.Effective, a.Profile.Source = s.Profile, s.Source
	a.Profile.UntilReboot, a.Profile.Persistent, a.Profile.Unconfirmed = s.UntilReboot, s.Persistent, s.Unconfirmed
}

// markLeft marks the GPUs that holders keep from the profile.
func markLeft(a *Account, s *runstate.State) {
	for i := range a.GPUs {
		g := &a.GPUs[i]
		g.Left = s != nil && !g.AsWanted() && slices.Contains(s.Left, partition.Address(g.Address))
	}
}

func addInventory(a *Account, s Inventory) {
	a.GPUs, a.Parts = s.GPUs, s.Parts
	if s.Profiles != nil && a.Profile.Defined != nil {
		a.Profile.Defined = s.Profiles
	}
	a.Problems = append(a.Problems, s.Problems...)
	a.Warnings = append(a.Warnings, s.Warnings...)
}
