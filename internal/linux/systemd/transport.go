package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// The addresses of PID 1: the system bus, and for root a socket of PID 1 that needs no bus
// daemon. Calls by the private socket take half as long, and only calls for PID 1 arrive there.
// But PID 1 sends all its signals to every private connection, each step of every unit, which
// costs PID 1 and the receiver time while many units stop and start.
const (
	SystemBus     = "unix:path=/run/dbus/system_bus_socket"
	PrivateSocket = "unix:path=/run/systemd/private"
)

// redialInterval is the time between attempts to connect while nothing listens on either
// socket, as during a daemon-reexec. No event reports that PID 1 listens again.
const redialInterval = 100 * time.Millisecond

// transport carries calls to PID 1 and signals from it. It survives a daemon-reexec and a restart
// of the bus: it repeats lost calls where that is safe.
type transport struct {
	signals *dispatcher

	mu        sync.Mutex
	endpoints []endpoint // in the order in which they are tried
	now       *session
	closed    bool
}

// endpoint is an address of PID 1.
type endpoint struct {
	private bool
	address string // "" for none
	connect func(ctx context.Context, address string, signals *dispatcher) (*session, error)
}

func byBus(address string) endpoint     { return endpoint{false, address, dialBus} }
func byPrivate(address string) endpoint { return endpoint{true, address, dialPrivate} }

func connect(ctx context.Context, endpoints ...endpoint) (*transport, error) {
	t := &transport{endpoints: endpoints, signals: newDispatcher()}
	if _, err := t.session(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *transport) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.now == nil {
		return nil
	}
	return t.now.Close()
}

// session returns the present session, or a new one if that is broken.
func (t *transport) session(ctx context.Context) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	if t.now != nil && t.now.Connected() {
		return t.now, nil
	}
	var failed []string
	for _, e := range t.endpoints {
		s, err := e.connect(ctx, e.address, t.signals)
		if err == nil {
			t.now = s
			return s, nil
		}
		failed = append(failed, err.Error())
	}
	return nil, fmt.Errorf("%w: %s", errUnreachable, strings.Join(failed, "; "))
}

// call makes a call that can be repeated: one that only reads, or that changes nothing the
// second time. While PID 1 is being replaced, it waits.
func (t *transport) call(ctx context.Context, reply any, path dbus.ObjectPath, method string, args ...any) error {
	for {
		err := t.once(ctx, reply, path, method, args...)
		if err == nil || !lost(err) {
			return err
		}
		if err := t.reconnect(ctx); err != nil {
			return err
		}
	}
}

// once makes a call that must not be repeated.
func (t *transport) once(ctx context.Context, reply any, path dbus.ObjectPath, method string, args ...any) error {
	s, err := t.session(ctx)
	if err != nil {
		return err
	}
	// Without this flag, a bus without PID 1 tries to start it.
	call := s.Object(service, path).CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
	if reply == nil {
		return sanitize.Error(call.Err)
	}
	return sanitize.Error(call.Store(reply))
}

// listen subscribes to the signals of these rules and of [managerRules]. New sessions add the
// rules again. Without listen the bus sends no signals, and a connection for a single read
// needs half the calls.
func (t *transport) listen(ctx context.Context, rules []rule) (*subscription, error) {
	sub, added := t.signals.add(), t.signals.match(append(managerRules(), rules...))
	s, err := t.session(ctx)
	if err == nil {
		err = s.match(ctx, added)
	}
	if err != nil && !lost(err) {
		t.signals.remove(sub)
		t.signals.unmatch(added)
		return nil, fmt.Errorf("cannot listen to systemd: %w", err)
	}
	return sub, nil
}

// subscribe is listen for a wait during which many units may stop and start: it switches the
// connection to the bus if there is one.
func (t *transport) subscribe(ctx context.Context, rules []rule) (*subscription, error) {
	t.switchToBus(ctx)
	return t.listen(ctx, rules)
}

// busTimeout is how long a connection to the bus may take while there is a private one.
const busTimeout = time.Second

// switchToBus replaces a private session by one on the bus. A bus that does not answer is not
// tried again.
func (t *transport) switchToBus(ctx context.Context) {
	t.mu.Lock()
	private, endpoints := !t.closed && t.now != nil && t.now.private, t.endpoints
	t.mu.Unlock()
	i := slices.IndexFunc(endpoints, func(e endpoint) bool { return !e.private })
	if !private || i < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	s, err := endpoints[i].connect(ctx, endpoints[i].address, t.signals)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.endpoints = slices.DeleteFunc(slices.Clone(t.endpoints), func(e endpoint) bool { return !e.private })
	case t.closed:
		s.Close()
	default:
		t.now.Close()
		t.now = s
	}
}

// reconnect waits until PID 1 answers again.
func (t *transport) reconnect(ctx context.Context) error {
	sub, err := t.listen(ctx, nil)
	if err != nil {
		return err
	}
	defer t.signals.remove(sub)
	for {
		var redial <-chan time.Time
		s, err := t.session(ctx)
		switch {
		case errors.Is(err, errClosed):
			return err
		case err != nil:
			redial = time.After(redialInterval)
		case s.owned(ctx):
			return s.subscribe(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("systemd does not answer: %w", ctx.Err())
		case <-sub.wake:
		case <-redial:
		}
	}
}
