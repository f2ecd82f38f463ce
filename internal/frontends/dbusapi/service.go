package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/dbusconn"
	"dcm/internal/sanitize"
)

// Service serves dcm on a bus: it connects to the bus, publishes the objects and signals their changes.
// Publish and Run may be called from any goroutine.
type Service struct {
	address string
	log     *slog.Logger
	handler handler
	tree    tree

	mu   sync.Mutex
	conn *dbus.Conn // nil until the daemon owns its name on the bus
}

// New returns a service for the bus at that address.
func New(address string, control Control, log *slog.Logger) *Service {
	s := &Service{address: address, log: log}
	s.handler = handler{
		control: control, log: log, planning: newFairQueue(), limiter: newLimiter(),
		accounts: newSharedQueries(control.Documents.Account),
		usages:   newSharedQueries(control.Documents.Usage),
		plans:    newSharedQueries(control.Planner.Plans),
	}
	callers := new(credentialsCache)
	s.handler.caller = func(ctx context.Context, c call) (credentials, error) {
		return callers.of(ctx, c.conn, c.sender)
	}
	s.Publish(status.Account{})
	return s
}

// Publish replaces the objects by those of an account and sends signals about the changes. It may
// block until the bus has read the signals.
func (s *Service) Publish(a status.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.tree.replace(s.objects(a)) {
		s.signal(c)
	}
}

// signal sends the signal of one change. If the connection breaks, [Service.Run] reconnects.
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

// If Run cannot connect or the bus refuses the name, it retries for less than a minute and doubles
// the delay each time. The bus may be starting, or may not have read a new policy file yet. After
// that, Run retries only when appeared receives.
const (
	firstRetryDelay = 100 * time.Millisecond
	maxRetries      = 9
)

// Run keeps the daemon connected to the bus until ctx ends. It connects immediately, again if the
// connection breaks, and when appeared receives.
func (s *Service) Run(ctx context.Context, appeared <-chan struct{}) {
	failed := 0
	for {
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.log.Info("connection to the system bus lost")
			failed = 0
		case failed == 0:
			s.log.Info("not on the system bus; dcm continues without it", "reason", err)
		}
		var retry <-chan time.Time
		if failed < maxRetries {
			retry = time.After(firstRetryDelay << failed)
		}
		failed++
		select {
		case <-ctx.Done():
			return
		case <-retry:
		case <-appeared:
			failed = 1
		}
	}
}

// stableLimit is the duration after which the end of a connection does not count as a failed attempt.
// So a bus that closes every connection immediately is not retried forever.
const stableLimit = time.Second

// session connects and serves until the connection ends. It returns an error if dcm could
// not connect or get its name.
func (s *Service) session(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	in := newInbox(&s.tree, &s.handler)
	conn, err := dial(limit, s.address, in.receive)
	if err != nil {
		return err
	}
	defer conn.Close()
	in.open(conn)
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
			return errors.New("the bus closed the connection immediately")
		}
	}
	return nil
}

// requestName requests the daemon's name. If another process of root owns the name, the bus queues
// the request.
func (s *Service) requestName(ctx context.Context, conn *dbus.Conn) error {
	var reply dbus.RequestNameReply
	call := conn.BusObject().CallWithContext(ctx, busName+".RequestName", 0, Name, uint32(0))
	if err := call.Store(&reply); err != nil {
		return fmt.Errorf("cannot acquire the bus name %s: %w", Name, sanitize.Error(err))
	}
	if reply == dbus.RequestNameReplyInQueue {
		s.log.Warn("another process owns the bus name; dcm gets it when that process ends", "name", Name)
	}
	return nil
}

func (s *Service) setConn(conn *dbus.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
}

// dial connects to a bus.
func dial(ctx context.Context, address string, receive dbusconn.Receiver) (*dbusconn.Conn, error) {
	conn, err := dbusconn.Join(ctx, address, receive)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, sanitize.Error(err))
	}
	return conn, nil
}
