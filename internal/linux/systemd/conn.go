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

// Where PID 1 can be asked: by the system bus, and for root by a socket of its
// own, which needs no bus daemon. That is half the way there and half the way back, and
// no call but those that are for PID 1; but all that PID 1 signals comes along, too, each
// step of every unit: while many go down and come up it has better things to do, as has
// who would have to listen.
const (
	SystemBus     = "unix:path=/run/dbus/system_bus_socket"
	PrivateSocket = "unix:path=/run/systemd/private"
)

// redial is how long to leave both sockets alone when neither is listened on, as
// for a moment in a daemon-reexec. Nothing tells when they are again.
const redial = 100 * time.Millisecond

var (
	errUnreachable = errors.New("cannot connect to systemd")
	errClosed      = errors.New("the connection to systemd was closed")
)

// Conn is a connection to PID 1. It outlives a daemon-reexec and a restart of the
// bus: what was asked meanwhile is asked again, if that does no harm. It holds a
// socket and wakes up for what PID 1 does, so keep it for one run, not for good.
type Conn struct {
	doors []endpoint // in the order in which they are tried
	hub   *dispatcher

	mu     sync.Mutex
	now    *session
	closed bool
}

// endpoint is one by which PID 1 can be asked.
type endpoint struct {
	private bool
	address string // "" for none
	connect func(ctx context.Context, address string, h *dispatcher) (*session, error)
}

func byBus(address string) endpoint     { return endpoint{false, address, dialBus} }
func byPrivate(address string) endpoint { return endpoint{true, address, dialPrivate} }

// Dial connects for a piece of work: for root by systemd's private socket, else by the
// system bus.
func Dial(ctx context.Context) (*Conn, error) {
	return connect(ctx, byPrivate(PrivateSocket), byBus(SystemBus))
}

// DialToWait connects for somebody who is going to wait, for days maybe, until one unit
// changes: by the system bus, which passes what was asked for, else by the private
// socket.
func DialToWait(ctx context.Context) (*Conn, error) { return DialAt(ctx, SystemBus, PrivateSocket) }

// DialAt connects to PID 1 at those D-Bus addresses. Either may be "".
func DialAt(ctx context.Context, bus, private string) (*Conn, error) {
	return connect(ctx, byBus(bus), byPrivate(private))
}

func connect(ctx context.Context, doors ...endpoint) (*Conn, error) {
	c := &Conn{doors: doors, hub: newHub()}
	if _, err := c.link(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connection and whatever is waiting on it.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.now == nil {
		return nil
	}
	return c.now.Close()
}

// link returns the link in use, a new one if that is broken.
func (c *Conn) link(ctx context.Context) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.now != nil && c.now.Connected() {
		return c.now, nil
	}
	var why []error
	for _, w := range c.doors {
		l, err := w.connect(ctx, w.address, c.hub)
		if err == nil {
			c.now = l
			return l, nil
		}
		why = append(why, err)
	}
	return nil, fmt.Errorf("%w: %w", errUnreachable, joined(why))
}

// joined is errors in one line.
type joined []error

func (e joined) Error() string {
	text := make([]string, len(e))
	for i, err := range e {
		text[i] = err.Error()
	}
	return strings.Join(text, "; ")
}

func (e joined) Unwrap() []error { return e }

// call makes a call that may be made twice: one that reads, or that asks for what
// a second time changes nothing. It waits for PID 1 while it is being replaced.
func (c *Conn) call(ctx context.Context, reply any, path dbus.ObjectPath, method string, args ...any) error {
	for {
		err := c.once(ctx, reply, path, method, args...)
		if err == nil || !lost(err) {
			return err
		}
		if err := c.await(ctx); err != nil {
			return err
		}
	}
}

// once makes a call that might do harm if it were made again.
func (c *Conn) once(ctx context.Context, reply any, path dbus.ObjectPath, method string, args ...any) error {
	l, err := c.link(ctx)
	if err != nil {
		return err
	}
	// Without this flag a bus without PID 1 would try to start one.
	call := l.Object(service, path).CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
	if reply == nil {
		return sanitize.Error(call.Err)
	}
	return sanitize.Error(call.Store(reply))
}

// listen begins to hear the signals of these rules, and those that PID 1 may be lost
// with. A link that breaks meanwhile is replaced by one that is told them. Who only asks
// has no signals sent: a connection for a look is made in half the calls so.
func (c *Conn) listen(ctx context.Context, rules []rule) (*subscription, error) {
	ear, fresh := c.hub.listen(), c.hub.match(append(managerRules(), rules...))
	l, err := c.link(ctx)
	if err == nil {
		err = l.hear(ctx, fresh)
	}
	if err != nil && !lost(err) {
		c.hub.forget(ear)
		c.hub.unmatch(fresh)
		return nil, fmt.Errorf("cannot listen to systemd: %w", err)
	}
	return ear, nil
}

// subscribe is listen for who waits until units have come to rest, while others may go down
// and come up: from there on the connection goes by the bus, if there is one.
func (c *Conn) subscribe(ctx context.Context, rules []rule) (*subscription, error) {
	c.switchToBus(ctx)
	return c.listen(ctx, rules)
}

// prompt is what a bus may take to let dcm in where there is another way.
const prompt = time.Second

// switchToBus leaves PID 1's own socket for the bus. One that does not answer is not asked
// again.
func (c *Conn) switchToBus(ctx context.Context) {
	c.mu.Lock()
	direct, doors := !c.closed && c.now != nil && c.now.private, c.doors
	c.mu.Unlock()
	i := slices.IndexFunc(doors, func(d endpoint) bool { return !d.private })
	if !direct || i < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, prompt)
	defer cancel()
	l, err := doors[i].connect(ctx, doors[i].address, c.hub)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.doors = slices.DeleteFunc(slices.Clone(c.doors), func(d endpoint) bool { return !d.private })
	case c.closed:
		l.Close()
	default:
		c.now.Close()
		c.now = l
	}
}

// await waits until PID 1 can be asked again.
func (c *Conn) await(ctx context.Context) error {
	ear, err := c.listen(ctx, nil)
	if err != nil {
		return err
	}
	defer c.hub.forget(ear)
	for {
		var pause <-chan time.Time
		l, err := c.link(ctx)
		switch {
		case errors.Is(err, errClosed):
			return err
		case err != nil:
			pause = time.After(redial)
		case l.owned(ctx):
			return l.subscribe(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("systemd does not answer: %w", ctx.Err())
		case <-ear.wake:
		case <-pause:
		}
	}
}

// lost reports whether a call failed because one of the two ends went away, so
// that it is not known whether it was made.
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
