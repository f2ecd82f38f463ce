package varlink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes the service, see org.varlink.service.GetInfo.
type Info struct {
	Vendor  string `json:"vendor"`
	Product string `json:"product"`
	Version string `json:"version"`
	URL     string `json:"url"`
}

// Interface is a set of methods.
type Interface struct {
	Name        string
	Description string // in the language of varlink.org
	Methods     map[string]Method
}

// Method runs a call and returns its last reply, a value that is encoded as a JSON object. send
// sends earlier replies; it is nil if the client accepts only one. An [*Error] is sent to the client,
// any other error ends the connection. If send is nil, the call is completed even if the client
// disconnects, and ctx ends with the server. Otherwise ctx ends with the connection.
type Method func(ctx context.Context, from Peer, p Parameters, send func(any) error) (any, error)

// Peer is the process that made the connection, as the kernel reports it.
type Peer struct {
	PID int
	UID uint32
}

// Limits limit the work of a server. A zero value means the default.
type Limits struct {
	Message        int           // size of a call in bytes
	Connections    int           // concurrent connections
	Calls          int           // unanswered calls of one connection
	MessageTimeout time.Duration // time to read or write one message
	SilenceTimeout time.Duration // a connection without a call is closed after it
	IdleTimeout    time.Duration // a server without connections ends after it
}

const (
	defaultMessageSize    = 6*64<<10 + 16<<10 // a text of 64 KiB with every byte escaped (\u0000)
	defaultConnections    = 16
	defaultCalls          = 2
	defaultMessageTimeout = 30 * time.Second
	defaultSilenceTimeout = 10 * time.Minute
	defaultIdleTimeout    = 30 * time.Second
)

// Server serves varlink interfaces on a socket.
type Server struct {
	Info       Info
	Interfaces []Interface
	Limits     Limits
	Log        *slog.Logger
}

func (s *Server) defaults() {
	def := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	during := func(v *time.Duration, otherwise time.Duration) {
		if *v == 0 {
			*v = otherwise
		}
	}
	def(&s.Limits.Message, defaultMessageSize)
	def(&s.Limits.Connections, defaultConnections)
	def(&s.Limits.Calls, defaultCalls)
	during(&s.Limits.MessageTimeout, defaultMessageTimeout)
	during(&s.Limits.SilenceTimeout, defaultSilenceTimeout)
	during(&s.Limits.IdleTimeout, defaultIdleTimeout)
}

// Serve accepts connections until ctx ends or no client was connected for IdleTimeout. It
// returns after the last connection has ended. Connections beyond the limit wait in the
// socket's backlog.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	s.defaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, s.Limits.Connections)
	left := make(chan struct{}, 1) // receives after a connection ended
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := s.accept(ctx, l, func() bool { return len(room) == 1 }, left)
		if conn == nil {
			cancel()
			return err
		}
		all.Go(func() {
			defer func() {
				<-room
				select {
				case left <- struct{}{}:
				default:
				}
			}()
			s.serveConnection(ctx, conn)
		})
	}
}

// accept waits for the next connection. It returns nil when ctx has ended, or after
// IdleTimeout without a connection.
func (s *Server) accept(ctx context.Context, l *net.UnixListener, alone func() bool, left <-chan struct{}) (*net.UnixConn, error) {
	for {
		if err := l.SetDeadline(time.Now().Add(s.Limits.IdleTimeout)); err != nil {
			return nil, listenError(ctx, err)
		}
		conn, err := l.AcceptUnix()
		var timeout net.Error
		switch {
		case err == nil:
			return conn, nil
		case !errors.As(err, &timeout) || !timeout.Timeout():
			return nil, listenError(ctx, err)
		}
		select {
		case <-left: // a client that just disconnected may return
		default:
			if alone() {
				return nil, nil
			}
		}
	}
}

// listenError returns the error of a listener, or nil if ctx has ended and so closed it.
func listenError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("cannot accept connections: %w", err)
}

// serveConnection answers the calls of one connection, one after the other.
func (s *Server) serveConnection(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	connected, disconnect := context.WithCancelCause(ctx)
	defer disconnect(nil)
	from, err := peerOf(conn)
	if err != nil {
		s.Log.Warn("connection refused: cannot determine the caller", "error", err)
		return
	}
	pending := new(callCounter)
	calls := make(chan Call, s.Limits.Calls)
	go func() {
		defer close(calls)
		disconnect(s.readCalls(connected, conn, pending, calls))
	}()
	for c := range calls {
		during := ctx
		if c.More {
			during = connected
		}
		if err := s.answer(during, conn, from, c); err != nil {
			disconnect(err)
			break
		}
		pending.done()
	}
	if err := context.Cause(connected); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		s.Log.Warn("connection closed: "+err.Error(), "pid", from.PID, "uid", from.UID)
	}
}

// readCalls reads calls until the connection ends. It runs concurrently with the answers, so
// that a disconnect is noticed during a call.
func (s *Server) readCalls(ctx context.Context, conn net.Conn, pending *callCounter, calls chan<- Call) error {
	in := bufio.NewReader(conn)
	for {
		if err := s.awaitMessage(conn, in, pending); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(s.Limits.MessageTimeout)); err != nil {
			return err
		}
		text, err := readMessage(in, s.Limits.Message)
		if err != nil {
			return err
		}
		c, err := parse(text)
		if err != nil {
			return err
		}
		pending.add()
		select {
		case calls <- c:
		case <-ctx.Done():
			return ctx.Err()
		default:
			return fmt.Errorf("too many unanswered calls (limit %d)", s.Limits.Calls)
		}
	}
}

// awaitMessage waits for the first byte of a message. It returns io.EOF after SilenceTimeout,
// unless a call is being answered.
func (s *Server) awaitMessage(conn net.Conn, in *bufio.Reader, pending *callCounter) error {
	for {
		if err := conn.SetReadDeadline(time.Now().Add(s.Limits.SilenceTimeout)); err != nil {
			return err
		}
		_, err := in.Peek(1)
		var timeout net.Error
		if err != nil && errors.As(err, &timeout) && timeout.Timeout() {
			if pending.any() {
				continue
			}
			return io.EOF
		}
		return err
	}
}

// callCounter counts the calls that are not answered yet.
type callCounter struct {
	mu sync.Mutex
	n  int
}

func (a *callCounter) add()  { a.change(1) }
func (a *callCounter) done() { a.change(-1) }

func (a *callCounter) change(by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n += by
}

func (a *callCounter) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n > 0
}

// peerOf reads the credentials of the process that made the connection.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return Peer{}, err
	}
	if failed != nil {
		return Peer{}, failed
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid}, nil
}
