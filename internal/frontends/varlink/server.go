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

// Info says which service it is, see org.varlink.service.GetInfo.
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

// Method answers a call: with what it returns, after what it has sent. What is returned
// or sent becomes a JSON object. An [*Error] is told as it is, any other one ends the
// connection. send is nil where the client takes one answer alone: what it has asked for
// then goes on without it, and ctx ends with the server. Else ctx ends with the connection.
type Method func(ctx context.Context, from Peer, p Parameters, send func(any) error) (any, error)

// Peer is the process that has connected, as the kernel knows it.
type Peer struct {
	PID int
	UID uint32
}

// Limits are the server's bounds; the zero value of each means the default.
type Limits struct {
	Message     int           // bytes of a call
	Connections int           // at a time
	Calls       int           // of a connection, that wait to be answered
	Slow        time.Duration // how long a message may take on its way
	Silent      time.Duration // how long a connection may stand without a call
	Idle        time.Duration // after which a server without connections ends
}

const (
	largest     = 6*64<<10 + 16<<10 // a text of 64 KiB, each byte escaped (\u0000)
	connections = 16
	waiting     = 2
	slow        = 30 * time.Second
	silent      = 10 * time.Minute
	idle        = 30 * time.Second
)

// Server answers calls.
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
	def(&s.Limits.Message, largest)
	def(&s.Limits.Connections, connections)
	def(&s.Limits.Calls, waiting)
	during(&s.Limits.Slow, slow)
	during(&s.Limits.Silent, silent)
	during(&s.Limits.Idle, idle)
}

// Serve takes connections until ctx ends or nobody has been there for a while, and
// returns when none is left. More connections than there may be wait for their turn.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	s.defaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, s.Limits.Connections)
	left := make(chan struct{}, 1) // somebody has gone
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
			s.attend(ctx, conn)
		})
	}
}

// accept waits for the next connection; it returns none when ctx has ended, or nobody
// has been there for a while.
func (s *Server) accept(ctx context.Context, l *net.UnixListener, alone func() bool, left <-chan struct{}) (*net.UnixConn, error) {
	for {
		if err := l.SetDeadline(time.Now().Add(s.Limits.Idle)); err != nil {
			return nil, ended(ctx, err)
		}
		conn, err := l.AcceptUnix()
		var timeout net.Error
		switch {
		case err == nil:
			return conn, nil
		case !errors.As(err, &timeout) || !timeout.Timeout():
			return nil, ended(ctx, err)
		}
		select {
		case <-left: // just now: it may come again
		default:
			if alone() {
				return nil, nil
			}
		}
	}
}

// ended is the error of a listener that was not closed on purpose.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("cannot take connections: %w", err)
}

// attend answers the calls of one connection, one after the other.
func (s *Server) attend(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	there, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	from, err := peer(conn)
	if err != nil {
		s.Log.Warn("a connection is refused: it cannot be told whose it is", "error", err)
		return
	}
	busy := new(atWork)
	calls := make(chan Call, s.Limits.Calls)
	go func() {
		defer close(calls)
		gone(s.listen(there, conn, busy, calls))
	}()
	for c := range calls {
		during := ctx
		if c.More {
			during = there
		}
		if err := s.answer(during, conn, from, c); err != nil {
			gone(err)
			break
		}
		busy.done()
	}
	if err := context.Cause(there); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		s.Log.Warn("a connection has ended: "+err.Error(), "pid", from.PID, "uid", from.UID)
	}
}

// listen reads calls until the connection ends. A client that has gone is noticed while
// a call of its is answered.
func (s *Server) listen(ctx context.Context, conn net.Conn, busy *atWork, calls chan<- Call) error {
	in := bufio.NewReader(conn)
	for {
		if err := s.begin(conn, in, busy); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(s.Limits.Slow)); err != nil {
			return err
		}
		text, err := message(in, s.Limits.Message)
		if err != nil {
			return err
		}
		c, err := parse(text)
		if err != nil {
			return err
		}
		busy.add()
		select {
		case calls <- c:
		case <-ctx.Done():
			return ctx.Err()
		default:
			return errors.New("too many calls wait for their answers")
		}
	}
}

// begin waits for the first byte of a message; not for ever, but where a call is being
// answered.
func (s *Server) begin(conn net.Conn, in *bufio.Reader, busy *atWork) error {
	for {
		if err := conn.SetReadDeadline(time.Now().Add(s.Limits.Silent)); err != nil {
			return err
		}
		_, err := in.Peek(1)
		var timeout net.Error
		if err != nil && errors.As(err, &timeout) && timeout.Timeout() {
			if busy.any() {
				continue
			}
			return io.EOF
		}
		return err
	}
}

// atWork counts the calls that are not answered yet.
type atWork struct {
	mu sync.Mutex
	n  int
}

func (a *atWork) add()  { a.change(1) }
func (a *atWork) done() { a.change(-1) }

func (a *atWork) change(by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n += by
}

func (a *atWork) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n > 0
}

// peer asks the kernel who has connected.
func peer(conn *net.UnixConn) (Peer, error) {
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
