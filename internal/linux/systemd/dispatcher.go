package systemd

import (
	"slices"
	"sync"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// dispatcher delivers PID 1's signals to the subscriptions. A signal is only a reason to read
// the state again: it may be late, or lost in a daemon-reexec.
type dispatcher struct {
	mu            sync.Mutex
	subscriptions map[*subscription]bool
	matched       []rule // added to the bus by each new session
}

// subscription receives signals.
type subscription struct {
	wake chan struct{} // of capacity 1: signals do not queue

	mu      sync.Mutex
	units   map[dbus.ObjectPath]bool   // whose signals are delivered; nil: all
	settled bool                       // signals of a unit that has not settled are dropped
	results map[dbus.ObjectPath]string // by job, of these units
	gap     bool                       // signals may have been lost
}

func newDispatcher() *dispatcher { return &dispatcher{subscriptions: map[*subscription]bool{}} }

func (d *dispatcher) add() *subscription {
	s := &subscription{wake: make(chan struct{}, 1), results: map[dbus.ObjectPath]string{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscriptions[s] = true
	return s
}

func (d *dispatcher) remove(s *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.subscriptions, s)
}

// match records rules for future sessions and returns those that the present one does not
// have yet: a bus limits the number of rules of a connection.
func (d *dispatcher) match(rules []rule) (added []rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range rules {
		if !slices.ContainsFunc(d.matched, r.equal) {
			added = append(added, r)
		}
	}
	d.matched = append(d.matched, added...)
	return added
}

func (d *dispatcher) unmatch(rules []rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range rules {
		d.matched = slices.DeleteFunc(d.matched, r.equal)
	}
}

func (d *dispatcher) rules() []rule {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.matched)
}

// DeliverSignal implements [dbus.SignalHandler]. The connection calls it for one signal at a
// time; it must not block.
func (d *dispatcher) DeliverSignal(_, _ string, signal *dbus.Signal) {
	d.each(func(s *subscription) { s.deliver(signal) })
}

// Terminate implements [dbus.Terminator]. The connection calls it when it is closed or broken.
func (d *dispatcher) Terminate() { d.each((*subscription).markGap) }

func (d *dispatcher) each(f func(*subscription)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.subscriptions {
		f(s)
	}
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

// onlySettled drops signals of units that have not settled. PID 1 signals each step of a
// unit, and a caller that reads the state after each would slow it down.
func (s *subscription) onlySettled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
}

func (s *subscription) deliver(signal *dbus.Signal) {
	switch signal.Name {
	case properties + ".PropertiesChanged":
		if s.follows(signal.Path) && !s.drops(signal) {
			s.notify()
		}
	case managerInterface + ".JobRemoved":
		s.jobRemoved(signal)
	case managerInterface + ".UnitRemoved":
		s.unitRemoved(signal)
	case "org.freedesktop.DBus.NameOwnerChanged", managerInterface + ".Reloading":
		s.markGap()
	}
}

func (s *subscription) drops(signal *dbus.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled && unsettledBy(signal)
}

// unsettledBy reports whether a signal says that its unit has a job or is in a transitional
// state. Signals of other interfaces ("….Service") precede that of the unit's interface and
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
	u.Job = job.ID != 0
	return !u.Settled()
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

// result returns how a job ended, "" if that is not known. certain is false if the signal may
// have been lost.
func (s *subscription) result(job dbus.ObjectPath) (result string, certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[job], job != "" && !s.gap
}

// unitPath returns the object path of a unit. The unit need not be loaded: PID 1 loads it when
// the object is used.
func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath(string(unitPaths) + "/" + sd.PathBusEscape(name))
}
