package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// makeGraceDelay is how long an instance may exist without its lease: systemd creates the one before it
// starts the other, and destroys the one after the end of the other.
const makeGraceDelay = 10 * time.Second

// maxSweepDelay limits the delay between two attempts to destroy an instance.
const maxSweepDelay = 10 * time.Minute

// madeUnits are the units of what leases have made.
type madeUnits interface {
	// Dependents returns the units that require a unit.
	Dependents(ctx context.Context, unit string) ([]string, error)
	// States returns the states of units by name, without those that are not loaded.
	States(ctx context.Context, units []string) (map[string]systemd.Unit, error)
	Start(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
}

// sweeper destroys the instances whose leases or services have ended, if systemd has not done that: a process was
// killed, or an instance stayed in use. It does the same with modes, and ends those that no lease has used
// for the idle time.
type sweeper struct {
	claims made.Claims
	units  madeUnits
	wanted func(made.Name) bool               // reports whether the configuration has the instance of a service; true otherwise
	times  func() (idle, dwell time.Duration) // see [config.Leases]
	given  func(partition.Address) time.Time  // when the last lease of a mode of the GPU was given
	now    func() time.Time
	log    *slog.Logger

	lost map[made.Name]*lostInstance
}

// lostInstance is an instance without a lease or service, or a mode without a lease.
type lostInstance struct {
	since time.Time // when the end of the lease was noticed
	next  time.Time // of the next attempt
	delay time.Duration
	kept  bool // a mode that is kept for the idle time
}

// sweep compares the claims with the units, and repeats the stop of units without a lease or service after the
// grace period. It reports whether there are claims.
func (s *sweeper) sweep(ctx context.Context) (any bool, err error) {
	claims, err := s.claims.List()
	if err != nil || len(claims) == 0 {
		s.lost = nil
		return false, err
	}
	names, users, err := s.related(ctx, claims)
	if err != nil {
		return true, err
	}
	states, err := s.units.States(ctx, names)
	if err != nil {
		return true, err
	}
	before := s.lost
	s.lost = make(map[made.Name]*lostInstance)
	for _, n := range claims {
		used := s.wanted(n) && slices.ContainsFunc(users[n], func(unit string) bool { return needed(states[unit]) })
		if own := states[n.Unit()]; used || own.Job || own.Active == "activating" || own.Active == "deactivating" {
			continue
		}
		l, kept := before[n], n.IsMode() && states[n.Keeper()].Active == "active"
		if l == nil || l.kept != kept || kept && s.given(n.GPU).After(l.since) { // a lease may have ended already
			l = s.begin(n, kept)
		}
		s.lost[n] = l
		if s.now().Before(l.next) {
			continue
		}
		l.next, l.delay = s.now().Add(l.delay), min(2*l.delay, maxSweepDelay)
		if kept {
			s.log.Info(fmt.Sprintf("switching %s back from %s to %s: no lease uses it", n.GPU, n.Profile, n.Rest), "unit", n.Unit())
			if err := s.units.Stop(ctx, n.Keeper()); err != nil {
				return true, err
			}
			continue
		}
		if n.IsMode() {
			s.log.Warn(fmt.Sprintf("switching %s back from %s to %s: no lease uses it, and an earlier attempt has failed", n.GPU, n.Profile, n.Rest), "unit", n.Unit())
		} else {
			s.log.Warn(fmt.Sprintf("destroying %s at slot %d of %s: %s does not need it", n.Profile, n.Start, n.GPU, n.Lease), "unit", n.Unit(), "lease", n.Lease)
		}
		if err := s.end(ctx, n, states[n.Unit()]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// related returns the units of which the states are needed, and the leases or the service of each claim.
func (s *sweeper) related(ctx context.Context, claims []made.Name) (names []string, users map[made.Name][]string, err error) {
	users = make(map[made.Name][]string)
	for _, n := range claims {
		names = append(names, n.Unit())
		if users[n] = []string{n.Lease}; n.IsMode() {
			all, err := s.units.Dependents(ctx, n.Unit())
			if err != nil {
				return nil, nil, err
			}
			users[n] = slices.DeleteFunc(all, func(unit string) bool { return !isLease(unit) })
			names = append(names, n.Keeper())
		}
		names = append(names, users[n]...)
	}
	return names, users, nil
}

// begin returns when a claim without a holder is to be ended: an instance after the grace period, a mode
// after the idle time and the minimum time between two switches.
func (s *sweeper) begin(n made.Name, kept bool) *lostInstance {
	l := &lostInstance{since: s.now(), next: s.now().Add(makeGraceDelay), delay: makeGraceDelay, kept: kept}
	if kept {
		idle, dwell := s.times()
		l.next = s.now().Add(idle)
		if earliest := s.claims.Since(n).Add(dwell); l.next.Before(earliest) {
			l.next = earliest
		}
	}
	return l
}

// due returns the time of the next attempt, the zero time if there is none.
func (s *sweeper) due() (next time.Time) {
	for _, l := range s.lost {
		if next.IsZero() || l.next.Before(next) {
			next = l.next
		}
	}
	return next
}

// needed reports whether the scope of a lease, or the service, is active or is being started. A service
// that systemd restarts after a delay is "activating".
func needed(holder systemd.Unit) bool {
	return holder.Job || slices.Contains([]string{"active", "activating", "deactivating", "reloading"}, holder.Active)
}

// end stops the unit of an instance. If it is not active, a start, which creates nothing, precedes the
// stop: systemd stops a unit that nothing needs.
func (s *sweeper) end(ctx context.Context, n made.Name, own systemd.Unit) error {
	if own.Active == "active" {
		return s.units.Stop(ctx, n.Unit())
	}
	return s.units.Start(ctx, n.Unit())
}

// SweepMade destroys the instances whose leases or services have ended, until ctx ends.
func (s *Service) SweepMade(ctx context.Context) {
	times := func() (idle, dwell time.Duration) { l := s.config().Leases; return l.IdleTime, l.DwellTime }
	w := sweeper{
		claims: host.Claims(s.host), units: hostUnits{scopes{host: s.host}}, wanted: s.wanted, times: times, given: s.modes.last,
		now: time.Now, log: s.log,
	}
	f := failures{units: hostFailures{s.host}, wanted: s.wanted, changed: s.statusChanged, now: time.Now, log: s.log}
	failed := ""
	for ctx.Err() == nil {
		watch, cancel := context.WithCancel(ctx)
		next := changed(watch, s.host)
		any, err := w.sweep(ctx)
		clear, unread := f.sweep(ctx)
		err = errors.Join(err, unread)
		if text := errorText(err); text != failed {
			if failed = text; err != nil {
				s.log.Warn("cannot check the instances of leases: " + text)
			}
		}
		if !any && !f.any() && err == nil && !s.servicesMake() {
			select {
			case <-s.made:
			case <-ctx.Done():
			}
		} else {
			awaitUntil(next, earliest(w.due(), clear))
		}
		cancel()
	}
}

// earliest returns the earlier of two times, of which the zero time stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// awaitUntil returns when the channel is closed, or at a time unless that is zero.
func awaitUntil(changed <-chan struct{}, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		due = time.After(time.Until(at))
	}
	select {
	case <-changed:
	case <-due:
	}
}

// wanted reports whether the configuration has the instance of a service. After a change of the reservation,
// systemd does not stop the unit of the former instance: the service no longer refers to it.
func (s *Service) wanted(n made.Name) bool {
	if !n.OfService() {
		return true
	}
	r, ok := config.MakesFor(s.config().Reservations, n.Lease)
	return ok && r.Make == n.Profile
}

// servicesMake reports whether services create instances. systemd starts them without the daemon.
func (s *Service) servicesMake() bool {
	return slices.ContainsFunc(s.config().Reservations, func(r config.Reservation) bool { return r.Make != "" })
}

// sweepSoon makes SweepMade check again.
func (s *Service) sweepSoon() {
	select {
	case s.made <- struct{}{}:
	default:
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// hostUnits are the units of this host. It is a [madeUnits].
type hostUnits struct{ scopes }

func (h hostUnits) States(ctx context.Context, units []string) (map[string]systemd.Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	list, err := conn.Units.Loaded(ctx, units) // loading one would be a change that starts the next sweep
	out := make(map[string]systemd.Unit)
	for _, u := range list {
		out[u.Name] = u
	}
	return out, err
}

func (h hostUnits) Dependents(ctx context.Context, unit string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	loaded, err := conn.Units.Loaded(ctx, []string{unit})
	if err != nil || len(loaded) == 0 {
		return nil, err // nothing requires a unit that is not loaded
	}
	return conn.Dependencies.Dependents(ctx, []string{unit})
}

func (h hostUnits) Start(ctx context.Context, unit string) error {
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.Start(ctx, unit)
}
