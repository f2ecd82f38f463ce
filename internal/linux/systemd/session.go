package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
)

var (
	errUnreachable = errors.New("cannot connect to systemd")
	errClosed      = errors.New("the connection to systemd was closed")
)

// session is one socket to PID 1.
type session struct {
	*dbusconn.Conn
	private bool // directly to PID 1, without a bus

	mu         sync.Mutex
	subscribed bool
}

// dialBus connects by a bus, adds the dispatcher's rules, and checks that PID 1 is on the bus.
func dialBus(ctx context.Context, address string, signals *dispatcher) (*session, error) {
	s, err := dial(ctx, address, signals, join)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	err = s.match(ctx, signals.rules())
	if err == nil && !s.owned(ctx) {
		err = errors.New("systemd is not on the bus")
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return s, nil
}

// join connects to a bus. The connection receives no calls.
func join(ctx context.Context, address string, options ...dbus.ConnOption) (*dbusconn.Conn, error) {
	return dbusconn.Join(ctx, address, nil, options...)
}

// dialPrivate connects to PID 1 directly. PID 1 then sends all its signals, and those that no subscription
// wants are dropped.
func dialPrivate(ctx context.Context, address string, signals *dispatcher) (*session, error) {
	s, err := dial(ctx, address, signals, func(ctx context.Context, address string, options ...dbus.ConnOption) (*dbusconn.Conn, error) {
		return dbusconn.Dial(ctx, address, signals.wants, options...)
	})
	if err != nil {
		return nil, err
	}
	s.private = true
	return s, nil
}

func dial(ctx context.Context, address string, signals *dispatcher, connect func(context.Context, string, ...dbus.ConnOption) (*dbusconn.Conn, error)) (*session, error) {
	if address == "" {
		return nil, errors.New("no address")
	}
	conn, err := connect(ctx, address, dbus.WithSignalHandler(signals))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &session{Conn: conn}, nil
}

// match adds rules to the bus, and subscribes to PID 1's signals the first time. It does
// nothing for a private session, which receives all signals.
func (s *session) match(ctx context.Context, rules []rule) error {
	if s.private || len(rules) == 0 {
		return nil
	}
	for _, r := range rules {
		if err := s.AddMatchSignalContext(ctx, r...); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		return nil
	}
	err := s.subscribe(ctx)
	s.subscribed = err == nil
	return err
}

// owned reports whether PID 1 is connected to the bus, or to the other end of a private socket.
func (s *session) owned(ctx context.Context) (owned bool) {
	if s.private {
		return true
	}
	err := s.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, service).Store(&owned)
	return err == nil && owned
}

// subscribe asks PID 1 for its signals: without a subscriber it sends none to the bus. A second
// call is no error. If the call is lost, the next call fails.
func (s *session) subscribe(ctx context.Context) error {
	if s.private {
		return nil
	}
	err := s.Object(service, managerPath).CallWithContext(ctx, managerInterface+".Subscribe", dbus.FlagNoAutoStart).Err
	if err == nil || lost(err) || errors.As(err, &dbus.Error{}) {
		return nil
	}
	return err
}

// broken reports whether the error is that of a socket whose other end is closed.
func broken(err error) bool {
	for _, gone := range []error{dbus.ErrClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
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
