package systemd

import (
	"context"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// subscription receives signals.
type subscription struct {
	wake chan struct{} // of capacity 1: signals do not queue

	mu      sync.Mutex
	units   map[dbus.ObjectPath]bool   // whose signals are delivered; nil: all
	settled bool                       // signals of a unit that has not settled are dropped
	results map[dbus.ObjectPath]string // of the ended jobs of these units, by job
	gap     bool                       // signals may have been lost
}

// recheckInterval is the time without a signal after which the state is read again: PID 1 loses signals when it
// executes itself again while the bus restarts.
const recheckInterval = 15 * time.Second

// await calls done until it returns true or an error, or until ctx ends: first immediately, then
// after each signal of the subscription, and after each recheckInterval. A signal itself carries no state: it only
// causes done to read the state again.
func (s *subscription) await(ctx context.Context, done func() (bool, error)) error {
	for {
		if over, err := done(); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-time.After(recheckInterval):
			s.markGap()
		}
	}
}

// awaitJob calls done until it returns true or an error. It passes the result of the job ("" if
// unknown), and whether the signal of the job's end is certain to arrive.
func (s *subscription) awaitJob(ctx context.Context, job dbus.ObjectPath, done func(result string, certain bool) (bool, error)) error {
	return s.await(ctx, func() (bool, error) {
		// The result is taken before the state is read: a state that is older than the end
		// of the job does not show its effect.
		result, certain := s.result(job)
		if result == "" && certain {
			return false, nil // do not call PID 1 while it executes the job
		}
		return done(result, certain)
	})
}

// follow delivers only signals of these units, by ID; without units, of all.
func (s *subscription) follow(units ...string) {
	var paths map[dbus.ObjectPath]bool
	if len(units) > 0 {
		paths = make(map[dbus.ObjectPath]bool, len(units))
	}
	for _, u := range units {
		paths[unitPath(u)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.units = paths
}

// onlySettled drops signals of units that have not settled and do not wait for an automatic restart. PID 1 signals each step of a
// unit, and a caller that reads the state after each would slow it down.
func (s *subscription) onlySettled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
}

// The signals that are handled.
const (
	propertiesChanged = properties + ".PropertiesChanged"
	jobRemoved        = managerInterface + ".JobRemoved"
	unitRemoved       = managerInterface + ".UnitRemoved"
	reloading         = managerInterface + ".Reloading"
	ownerChanged      = "org.freedesktop.DBus.NameOwnerChanged"
)

func (s *subscription) deliver(signal *dbus.Signal) {
	switch signal.Name {
	case propertiesChanged:
		if s.follows(signal.Path) && !s.drops(signal) {
			s.notify()
		}
	case jobRemoved:
		s.jobRemoved(signal)
	case unitRemoved:
		s.unitRemoved(signal)
	case ownerChanged, reloading:
		s.markGap()
	}
}

// wants reports whether deliver may handle a signal of that name from that object.
func (s *subscription) wants(path dbus.ObjectPath, name string) bool {
	switch name {
	case propertiesChanged:
		return s.follows(path)
	case jobRemoved, unitRemoved, ownerChanged, reloading:
		return true
	}
	return false
}

func (s *subscription) drops(signal *dbus.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled && unsettledBy(signal)
}

// unsettledBy reports whether a signal says that its unit has a job or is in a transitional
// state other than the wait for an automatic restart. Signals of other interfaces ("….Service") precede that of the unit's interface and
// say nothing about it.
func unsettledBy(signal *dbus.Signal) bool {
	var iface string
	var changed map[string]dbus.Variant
	var invalidated []string
	if dbus.Store(signal.Body, &iface, &changed, &invalidated) != nil {
		return false
	}
	if iface != unitInterface {
		return true
	}
	var u Unit
	var job struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	if v, ok := changed["ActiveState"]; ok && v.Store(&u.Active) != nil {
		return false
	}
	if v, ok := changed["Job"]; ok && v.Store(&job) != nil {
		return false
	}
	if v, ok := changed["SubState"]; ok && v.Store(&u.Sub) != nil {
		return false
	}
	u.Job = job.ID != 0
	return !u.Settled() && !u.Restarting()
}

// jobRemoved records the result of a job: (id, job, unit, result).
func (s *subscription) jobRemoved(signal *dbus.Signal) {
	var id uint32
	var job dbus.ObjectPath
	var unit, result string
	if dbus.Store(signal.Body, &id, &job, &unit, &result) != nil || !s.follows(unitPath(unit)) {
		return
	}
	s.mu.Lock()
	s.results[job] = result
	s.mu.Unlock()
	s.notify()
}

// unitRemoved handles the unload of a unit: (id, unit). A scope that ends has no other signal.
func (s *subscription) unitRemoved(signal *dbus.Signal) {
	var id string
	var unit dbus.ObjectPath
	if dbus.Store(signal.Body, &id, &unit) == nil && s.follows(unitPath(id)) {
		s.notify()
	}
}

func (s *subscription) markGap() {
	s.mu.Lock()
	s.gap = true
	s.mu.Unlock()
	s.notify()
}

func (s *subscription) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscription) follows(unit dbus.ObjectPath) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.units == nil || s.units[unit]
}

// result returns how a job ended, "" if unknown. certain is false if the signal may have been lost.
func (s *subscription) result(job dbus.ObjectPath) (result string, certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[job], job != "" && !s.gap
}
