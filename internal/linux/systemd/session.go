package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
)

// The names of org.freedesktop.systemd1(5).
const (
	service          = "org.freedesktop.systemd1"
	managerPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
	unitPaths        = dbus.ObjectPath("/org/freedesktop/systemd1/unit")
	managerInterface = service + ".Manager"
	unitInterface    = service + ".Unit"
	serviceInterface = service + ".Service"
	properties       = "org.freedesktop.DBus.Properties"
)

// session is one socket to PID 1.
type session struct {
	*dbusconn.Conn
	private bool // directly to PID 1, without a bus between

	mu         sync.Mutex
	subscribed bool
}

// dialBus connects by a bus, tells it which signals to pass, and makes sure that PID 1 is
// on it. What PID 1 signals there is subscribed to if somebody listens.
func dialBus(ctx context.Context, address string, h *dispatcher) (*session, error) {
	l, err := dial(ctx, address, h, dbusconn.Join)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	err = l.hear(ctx, h.rules())
	if err == nil && !l.owned(ctx) {
		err = errors.New("systemd is not on the bus")
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return l, nil
}

// dialPrivate connects to PID 1 directly. It then signals everything without
// being asked to.
func dialPrivate(ctx context.Context, address string, h *dispatcher) (*session, error) {
	l, err := dial(ctx, address, h, dbusconn.Dial)
	if err != nil {
		return nil, err
	}
	l.private = true
	return l, nil
}

func dial(ctx context.Context, address string, h *dispatcher, connect func(context.Context, string, ...dbus.ConnOption) (*dbusconn.Conn, error)) (*session, error) {
	if address == "" {
		return nil, errors.New("no address")
	}
	conn, err := connect(ctx, address, dbus.WithSignalHandler(h))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &session{Conn: conn}, nil
}

// hear tells the bus of signals to pass, and PID 1 once to send any. A private link gets
// all of them.
func (l *session) hear(ctx context.Context, rules []rule) error {
	if l.private || len(rules) == 0 {
		return nil
	}
	for _, r := range rules {
		if err := l.AddMatchSignalContext(ctx, r...); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed {
		return nil
	}
	err := l.subscribe(ctx)
	l.subscribed = err == nil
	return err
}

// owned reports whether PID 1 is at the other end now.
func (l *session) owned(ctx context.Context) (yes bool) {
	if l.private {
		return true
	}
	err := l.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, service).Store(&yes)
	return err == nil && yes
}

// subscribe asks PID 1 for its signals: without any subscriber on the bus it
// sends none. Having asked before is no error, and a loss shows in the next call.
func (l *session) subscribe(ctx context.Context) error {
	if l.private {
		return nil
	}
	err := l.Object(service, managerPath).CallWithContext(ctx, managerInterface+".Subscribe", dbus.FlagNoAutoStart).Err
	if err == nil || lost(err) || errors.As(err, &dbus.Error{}) {
		return nil
	}
	return err
}

// broken reports whether an error is that of a socket whose other end is gone.
func broken(err error) bool {
	for _, gone := range []error{dbus.ErrClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
