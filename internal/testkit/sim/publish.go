package sim

import "sync"

// Uevent is a kernel event of a device, see kobject_uevent_env().
type Uevent struct{ Action, Path, Subsystem string }

// stateLock guards the state of a node. Unlock publishes what its holder changed: first the kernel
// forgets the entries that it cached, then the events are sent. So a process that learns of a change never
// reads the state before it.
type stateLock struct {
	mu      sync.Mutex
	changed bool // by the present holder
	outbox  []Uevent

	publishing sync.Mutex // held from the first forgotten entry to the last event
	forget     func()     // of a mounted tree; nil without one
	send       func(Uevent)
}

func (l *stateLock) Lock() { l.mu.Lock() }

func (l *stateLock) Unlock() {
	changed := l.changed
	l.changed = false
	l.mu.Unlock()
	if changed {
		l.publish()
	}
}

// LockRead and UnlockRead are for those who change nothing. Publishing calls them, so they must not publish.
func (l *stateLock) LockRead() { l.mu.Lock() }

func (l *stateLock) UnlockRead() { l.mu.Unlock() }

func (l *stateLock) publish() {
	l.publishing.Lock()
	defer l.publishing.Unlock()
	l.mu.Lock()
	events, forget := l.outbox, l.forget
	l.outbox = nil
	l.mu.Unlock()
	if forget != nil {
		forget()
	}
	for _, e := range events {
		l.send(e)
	}
}

// onChange sets what makes the kernel forget; nil if nothing is mounted any more.
func (l *stateLock) onChange(forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget = forget
}
