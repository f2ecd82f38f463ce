package systemd

import (
	"slices"
	"sync"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// dispatcher hands PID 1's signals to those who wait. A signal is only ever a reason to
// look at the state again: it may come late, or be lost in a daemon-reexec.
type dispatcher struct {
	mu      sync.Mutex
	ears    map[*subscription]bool
	matched []rule // what the bus is told, anew by each link
}

// subscription is one who waits.
type subscription struct {
	wake chan struct{} // of 1: signals do not queue

	mu   sync.Mutex
	only map[dbus.ObjectPath]bool   // the units to hear of; nil for all
	rest bool                       // only of units that may have come to rest
	jobs map[dbus.ObjectPath]string // job → result, of those units
	gap  bool                       // signals may have been lost
}

func newHub() *dispatcher { return &dispatcher{ears: map[*subscription]bool{}} }

func (h *dispatcher) listen() *subscription {
	e := &subscription{wake: make(chan struct{}, 1), jobs: map[dbus.ObjectPath]string{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ears[e] = true
	return e
}

// match notes rules for every link to come, and returns those that the one in
// use has not been told: a bus takes only so many of one connection.
func (h *dispatcher) match(rules []rule) (fresh []rule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rules {
		if !slices.ContainsFunc(h.matched, r.equal) {
			fresh = append(fresh, r)
		}
	}
	h.matched = append(h.matched, fresh...)
	return fresh
}

func (h *dispatcher) unmatch(rules []rule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rules {
		h.matched = slices.DeleteFunc(h.matched, r.equal)
	}
}

func (h *dispatcher) rules() []rule {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.matched)
}

func (h *dispatcher) forget(e *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ears, e)
}

// DeliverSignal is called by the connection, one signal at a time; it must not
// wait.
func (h *dispatcher) DeliverSignal(_, _ string, signal *dbus.Signal) {
	h.each(func(e *subscription) { e.hear(signal) })
}

// Terminate is called by the connection when it is closed or broken.
func (h *dispatcher) Terminate() { h.each((*subscription).miss) }

func (h *dispatcher) each(f func(*subscription)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.ears {
		f(e)
	}
}

// follow narrows what wakes to these units, by the names PID 1 gives them; none
// means all.
func (e *subscription) follow(units ...string) {
	var only map[dbus.ObjectPath]bool
	if len(units) > 0 {
		only = make(map[dbus.ObjectPath]bool, len(units))
	}
	for _, u := range units {
		only[unitPath(u)] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.only = only
}

// rests narrows what wakes to signals by which a unit may have come to rest. PID 1 tells
// of each step on a unit's way, and has enough to do there without being asked each time.
func (e *subscription) rests() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rest = true
}

func (e *subscription) hear(signal *dbus.Signal) {
	switch signal.Name {
	case properties + ".PropertiesChanged":
		if e.wants(signal.Path) && !(e.restful() && moves(signal)) {
			e.ring()
		}
	case managerInterface + ".JobRemoved":
		e.removed(signal)
	case managerInterface + ".UnitRemoved":
		e.unloaded(signal)
	case "org.freedesktop.DBus.NameOwnerChanged", managerInterface + ".Reloading":
		e.miss()
	}
}

func (e *subscription) restful() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rest
}

// moves tells of a signal that the unit is on its way, by what the signal says itself:
// it has a job, or is in a state that does not last. What is about a unit of its kind
// ("….Service") comes before what is about it as a unit, and is no news of that.
func moves(signal *dbus.Signal) bool {
	var iface string
	var now map[string]dbus.Variant
	var others []string
	if dbus.Store(signal.Body, &iface, &now, &others) != nil {
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
	if v, ok := now["ActiveState"]; ok && v.Store(&u.Active) != nil {
		return false
	}
	if v, ok := now["Job"]; ok && v.Store(&job) != nil {
		return false
	}
	u.Job = job.ID != 0
	return !u.Settled()
}

// removed notes how a job ended: (id, job, unit, result).
func (e *subscription) removed(signal *dbus.Signal) {
	var id uint32
	var job dbus.ObjectPath
	var unit, result string
	if dbus.Store(signal.Body, &id, &job, &unit, &result) != nil || !e.wants(unitPath(unit)) {
		return
	}
	e.mu.Lock()
	e.jobs[job] = result
	e.mu.Unlock()
	e.ring()
}

// unloaded tells of a unit that PID 1 has forgotten: (id, unit). It is how the end of a
// scope is heard of.
func (e *subscription) unloaded(signal *dbus.Signal) {
	var id string
	var unit dbus.ObjectPath
	if dbus.Store(signal.Body, &id, &unit) == nil && e.wants(unitPath(id)) {
		e.ring()
	}
}

func (e *subscription) miss() {
	e.mu.Lock()
	e.gap = true
	e.mu.Unlock()
	e.ring()
}

func (e *subscription) ring() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *subscription) wants(unit dbus.ObjectPath) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.only == nil || e.only[unit]
}

// result returns how a job ended, "" where that is not known; certain is false
// if it may never be.
func (e *subscription) result(job dbus.ObjectPath) (result string, certain bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.jobs[job], job != "" && !e.gap
}

// unitPath is the object that stands for a unit. It need not be loaded: PID 1
// loads what is asked for.
func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath(string(unitPaths) + "/" + sd.PathBusEscape(name))
}
