package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/dbusconn"
	"dcm/internal/sanitize"
)

// Service is dcm on a bus. Publish and Run may be called from any goroutine.
type Service struct {
	address string
	control Control
	log     *slog.Logger
	caller  func(context.Context, call) (credentials, error)

	tree     tree
	callers  credentialsCache
	limiter  *admission.Limiter
	planning *fairQueue
	accounts sharedQueries
	usages   sharedQueries

	mu   sync.Mutex
	conn *dbus.Conn     // nil while there is none
	peer *dbusconn.Conn // the same, from before the name is dcm's
}

// New returns a service for the bus at that address.
func New(address string, control Control, log *slog.Logger) *Service {
	s := &Service{address: address, control: control, log: log, planning: newFairQueue(), limiter: newLimiter()}
	s.accounts = newSharedQueries(func(ctx context.Context) (string, error) { return control.Account(ctx) })
	s.usages = newSharedQueries(func(ctx context.Context) (string, error) { return control.Usage(ctx) })
	s.caller = func(ctx context.Context, c call) (credentials, error) {
		return s.callers.of(ctx, s.connOf(c), c.sender)
	}
	s.Publish(status.Account{})
	return s
}

// Publish shows another account and signals those that changed. It may wait for the
// bus to take the signals.
func (s *Service) Publish(a status.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.tree.replace(s.objects(a)) {
		s.signal(c)
	}
}

// signal tells whoever listens. A connection that breaks is Run's business.
func (s *Service) signal(c change) {
	if s.conn == nil {
		return
	}
	var err error
	switch {
	case c.removed:
		err = s.conn.Emit(Path, objectManagerInterface+".InterfacesRemoved", c.path, []string{c.intf})
	case c.added:
		err = s.conn.Emit(Path, objectManagerInterface+".InterfacesAdded", c.path, map[string]map[string]dbus.Variant{c.intf: c.changed})
	default:
		err = s.conn.Emit(c.path, propertiesInterface+".PropertiesChanged", c.intf, c.changed, list(c.invalid))
	}
	if err != nil && s.conn.Connected() {
		s.log.Warn("cannot signal a change on the bus", "object", c.path, "error", err)
	}
}

// How long to try after a bus has gone, or has not let dcm have its name: it may
// be starting, and a policy just installed takes a moment. Nothing else tells.
// After that, only a sign that the bus is there makes another try.
const (
	firstRetryDelay = 100 * time.Millisecond
	maxRetries      = 9 // doubling: under a minute in all
)

// Run is on the bus until ctx ends: now, again when the connection broke, and when
// appeared says that a bus may be there. At rest it waits on the connection alone.
func (s *Service) Run(ctx context.Context, appeared <-chan struct{}) {
	failed := 0
	for {
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.log.Info("the bus is gone")
			failed = 0
		case failed == 0:
			s.log.Info("not on the bus; the work goes on without it", "reason", err)
		}
		var again <-chan time.Time
		if failed < maxRetries {
			again = time.After(firstRetryDelay << failed)
		}
		failed++
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-appeared:
			failed = 1
		}
	}
}

// stableLimit is how long a connection must have stood for its end not to count as a
// failure. A bus that takes dcm on and drops it at once is not asked for ever.
const stableLimit = time.Second

// session is one connection, from its beginning to its end. The error tells why it
// did not come about.
func (s *Service) session(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := dial(limit, s.address, dbus.WithHandler(&s.tree))
	if err != nil {
		return err
	}
	defer conn.Close()
	s.mu.Lock()
	s.peer = conn
	s.mu.Unlock()
	if err := s.requestName(limit, conn.Conn); err != nil {
		return err
	}
	began := time.Now()
	s.setConn(conn.Conn)
	defer s.setConn(nil)
	select {
	case <-ctx.Done():
	case <-conn.Context().Done():
		if time.Since(began) < stableLimit {
			return errors.New("the bus closed the connection at once")
		}
	}
	return nil
}

// requestName asks for the name. If somebody else has it, which only root can, dcm has
// it next.
func (s *Service) requestName(ctx context.Context, conn *dbus.Conn) error {
	var reply dbus.RequestNameReply
	call := conn.BusObject().CallWithContext(ctx, busName+".RequestName", 0, Name, uint32(0))
	if err := call.Store(&reply); err != nil {
		return fmt.Errorf("cannot have the name %s: %w", Name, sanitize.Error(err))
	}
	if reply == dbus.RequestNameReplyInQueue {
		s.log.Warn("another process has the name on the bus; dcm has it when that one ends", "name", Name)
	}
	return nil
}

func (s *Service) setConn(conn *dbus.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
}

// connOf is the connection of a call, which passes file descriptors once it is known.
func (s *Service) connOf(c call) *dbusconn.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer != nil && s.peer.Conn == c.conn {
		return s.peer
	}
	return dbusconn.Plain(c.conn)
}

// dial connects to a bus, within ctx.
func dial(ctx context.Context, address string, options ...dbus.ConnOption) (*dbusconn.Conn, error) {
	conn, err := dbusconn.Join(ctx, address, options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, sanitize.Error(err))
	}
	return conn, nil
}
