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

var (
	errUnreachable = errors.New("cannot connect to systemd")
	errClosed      = errors.New("the connection to systemd was closed")
)

// Conn is a connection to PID 1. It survives a daemon-reexec and a restart of the bus: calls
// that were lost are repeated if that is safe. It holds a socket and wakes up for signals, so
// close it after each operation.
type Conn struct {
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

// Dial connects for a short operation: for root by the private socket, otherwise by the
// system bus.
func Dial(ctx context.Context) (*Conn, error) {
	return connect(ctx, byPrivate(PrivateSocket), byBus(SystemBus))
}

// DialToWait connects to wait for changes of single units, possibly for days: by the system
// bus, which filters signals, otherwise by the private socket.
func DialToWait(ctx context.Context) (*Conn, error) { return DialAt(ctx, SystemBus, PrivateSocket) }

// DialAt connects to PID 1 at these D-Bus addresses. Either may be "".
func DialAt(ctx context.Context, bus, private string) (*Conn, error) {
	return connect(ctx, byBus(bus), byPrivate(private))
}

func connect(ctx context.Context, endpoints ...endpoint) (*Conn, error) {
	c := &Conn{endpoints: endpoints, signals: newDispatcher()}
	if _, err := c.session(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the connection. Calls that wait on it fail.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.now == nil {
		return nil
	}
	return c.now.Close()
}

// session returns the present session, or a new one if that is broken.
func (c *Conn) session(ctx context.Context) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.now != nil && c.now.Connected() {
		return c.now, nil
	}
	var failed []error
	for _, e := range c.endpoints {
		s, err := e.connect(ctx, e.address, c.signals)
		if err == nil {
			c.now = s
			return s, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("%w: %w", errUnreachable, joined(failed))
}

// joined are errors in one line.
type joined []error

func (e joined) Error() string {
	text := make([]string, len(e))
	for i, err := range e {
		text[i] = err.Error()
	}
	return strings.Join(text, "; ")
}

func (e joined) Unwrap() []error { return e }

// call makes a call that can be repeated: one that only reads, or that changes nothing the
// second time. While PID 1 is being replaced, it waits.
func (c *Conn) call(ctx context.Context, reply any, path dbus.ObjectPath, method string, args ...any) error {
	for {
		err := c.once(ctx, reply, path, method, args...)
		if err == nil || !lost(err) {
			return err
		}
		if err := c.reconnect(ctx); err != nil {
			return err
		}
	}
}

// once makes a call that must not be repeated.
func (c *Conn) once(ctx context.Context, reply any, path dbus.ObjectPath, method string, args ...any) error {
	s, err := c.session(ctx)
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
func (c *Conn) listen(ctx context.Context, rules []rule) (*subscription, error) {
	sub, added := c.signals.add(), c.signals.match(append(managerRules(), rules...))
	s, err := c.session(ctx)
	if err == nil {
		err = s.match(ctx, added)
	}
	if err != nil && !lost(err) {
		c.signals.remove(sub)
		c.signals.unmatch(added)
		return nil, fmt.Errorf("cannot listen to systemd: %w", err)
	}
	return sub, nil
}

// subscribe is listen for a wait during which many units may stop and start: it switches the
// connection to the bus if there is one.
func (c *Conn) subscribe(ctx context.Context, rules []rule) (*subscription, error) {
	c.switchToBus(ctx)
	return c.listen(ctx, rules)
}

// busTimeout is how long a connection to the bus may take while there is a private one.
const busTimeout = time.Second

// switchToBus replaces a private session by one on the bus. A bus that does not answer is not
// tried again.
func (c *Conn) switchToBus(ctx context.Context) {
	c.mu.Lock()
	private, endpoints := !c.closed && c.now != nil && c.now.private, c.endpoints
	c.mu.Unlock()
	i := slices.IndexFunc(endpoints, func(e endpoint) bool { return !e.private })
	if !private || i < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	s, err := endpoints[i].connect(ctx, endpoints[i].address, c.signals)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.endpoints = slices.DeleteFunc(slices.Clone(c.endpoints), func(e endpoint) bool { return !e.private })
	case c.closed:
		s.Close()
	default:
		c.now.Close()
		c.now = s
	}
}

// reconnect waits until PID 1 answers again.
func (c *Conn) reconnect(ctx context.Context) error {
	sub, err := c.listen(ctx, nil)
	if err != nil {
		return err
	}
	defer c.signals.remove(sub)
	for {
		var redial <-chan time.Time
		s, err := c.session(ctx)
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

// lost reports whether a call failed because an end of the connection was closed. Then it is
// not known whether PID 1 received the call.
func lost(err error) bool {
	var remote dbus.Error
	if errors.As(err, &remote) {
		return slices.Contains([]string{
			"org.freedesktop.DBus.Error.NoReply",
			"org.freedesktop.DBus.Error.Disconnected",
			"org.freedesktop.DBus.Error.NameHasNoOwner",
			"org.freedesktop.DBus.Error.ServiceUnknown",
		}, remote.Name)
	}
	return broken(err) || errors.Is(err, errUnreachable)
}
