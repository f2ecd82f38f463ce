package leaseservice

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/made"
	"dcm/internal/linux/systemd"
)

// makeGraceDelay is how long an instance may exist without its lease: systemd creates the one before it
// starts the other, and destroys the one after the end of the other.
const makeGraceDelay = 10 * time.Second

// maxSweepDelay limits the delay between two attempts to destroy an instance.
const maxSweepDelay = 10 * time.Minute

// madeUnits are the units of instances that leases have made.
type madeUnits interface {
	// States returns the states of units by name.
	States(ctx context.Context, units []string) (map[string]systemd.Unit, error)
	Start(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
}

// sweeper destroys the instances whose leases or services have ended, if systemd has not done that: a process was
// killed, or an instance stayed in use.
type sweeper struct {
	claims made.Claims
	units  madeUnits
	wanted func(made.Name) bool // reports whether the configuration has the instance of a service; true for a lease
	now    func() time.Time
	log    *slog.Logger

	lost map[made.Name]*lostInstance
}

// lostInstance is an instance without a lease or service.
type lostInstance struct {
	next  time.Time // of the next attempt
	delay time.Duration
}

// sweep compares the claims with the units, and repeats the stop of units without a lease or service after the
// grace period. It reports whether there are claims.
func (s *sweeper) sweep(ctx context.Context) (any bool, err error) {
	claims, err := s.claims.List()
	if err != nil || len(claims) == 0 {
		s.lost = nil
		return false, err
	}
	var names []string
	for _, n := range claims {
		names = append(names, n.Lease, n.Unit())
	}
	states, err := s.units.States(ctx, names)
	if err != nil {
		return true, err
	}
	before := s.lost
	s.lost = make(map[made.Name]*lostInstance)
	for _, n := range claims {
		if own := states[n.Unit()]; needed(states[n.Lease]) && s.wanted(n) || own.Job || own.Active == "activating" || own.Active == "deactivating" {
			continue
		}
		l := before[n]
		if l == nil {
			l = &lostInstance{next: s.now().Add(makeGraceDelay), delay: makeGraceDelay}
		}
		s.lost[n] = l
		if s.now().Before(l.next) {
			continue
		}
		l.next, l.delay = s.now().Add(l.delay), min(2*l.delay, maxSweepDelay)
		s.log.Warn(fmt.Sprintf("destroying %s at slot %d of %s: %s does not need it", n.Profile, n.Start, n.GPU, n.Lease), "unit", n.Unit(), "lease", n.Lease)
		if err := s.end(ctx, n, states[n.Unit()]); err != nil {
			return true, err
		}
	}
	return true, nil
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
	w := sweeper{claims: host.Claims(s.host), units: hostUnits{scopes{host: s.host}}, wanted: s.wanted, now: time.Now, log: s.log}
	failed := ""
	for ctx.Err() == nil {
		any, err := w.sweep(ctx)
		if text := errorText(err); text != failed {
			if failed = text; err != nil {
				s.log.Warn("cannot check the instances of leases: " + text)
			}
		}
		if !any && err == nil && !s.servicesMake() {
			select {
			case <-s.made:
			case <-ctx.Done():
			}
			continue
		}
		<-changed(ctx, s.host)
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
	list, err := conn.Units.List(ctx, units, systemd.States)
	out := make(map[string]systemd.Unit)
	for _, u := range list {
		out[u.Name] = u
	}
	return out, err
}

func (h hostUnits) Start(ctx context.Context, unit string) error {
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.Start(ctx, unit)
}
