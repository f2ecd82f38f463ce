package systemd

import (
	"slices"
	"sync"

	"github.com/godbus/dbus/v5"
)

// dispatcher delivers PID 1's signals to the subscriptions. A signal is only a reason to read
// the state again: it may be late, or lost in a daemon-reexec.
type dispatcher struct {
	mu            sync.Mutex
	subscriptions map[*subscription]bool
	matched       []rule // added to the bus by each new session
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

// wants reports whether a subscription may handle a signal. It is a [dbusconn.Filter].
func (d *dispatcher) wants(path, iface, member string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.subscriptions {
		if s.wants(dbus.ObjectPath(path), iface+"."+member) {
			return true
		}
	}
	return false
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
