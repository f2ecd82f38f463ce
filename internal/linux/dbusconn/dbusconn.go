// Package dbusconn connects to a D-Bus peer: a bus, or the private socket of PID 1. It makes the
// handshake, limits the size of messages and passes file descriptors. It does not interpret
// messages.
//
// The library (godbus) makes the handshake in four round trips and reads each message with three
// system calls. This package writes the whole handshake with one call, as sd-bus does. That is possible
// because there is only one authentication: EXTERNAL, by the credentials of the socket (D-Bus
// specification, "Authentication Protocol"). The package sends the expected replies to the library
// and checks the peer's real replies when they arrive. For the library the connection is a stream of
// bytes. [Conn.Exchange] passes file descriptors in both directions.
package dbusconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Conn is a connection.
type Conn struct {
	*dbus.Conn
	line *line
}

// Dial connects to a peer that is not a bus. It returns after the peer has accepted the handshake. filter may be
// nil.
func Dial(ctx context.Context, address string, filter Filter, options ...dbus.ConnOption) (*Conn, error) {
	return open(ctx, address, filter, func(l *line) error { return <-l.greeted }, options)
}

// Join connects to a bus and calls Hello.
func Join(ctx context.Context, address string, options ...dbus.ConnOption) (*Conn, error) {
	return open(ctx, address, nil, nil, options)
}

func open(ctx context.Context, address string, filter Filter, welcome func(*line) error, options []dbus.ConnOption) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	socket, err := socketAt(address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: socket, filter: filter, files: &files{socket: socket, slots: make(chan struct{}, exchanges)}, greeted: make(chan error, 1)}
	l.in = bufio.NewReader(l.files)
	conn, err := dbus.NewConn(l, options...)
	if err != nil {
		socket.Close()
		return nil, err
	}
	// Auth and Hello take no context.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal("")})
	switch {
	case err != nil:
	case welcome != nil:
		err = welcome(l)
	default:
		err = conn.Hello()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, l.why(err)
	}
	return &Conn{conn, l}, nil
}

// socketAt connects to the first of the addresses that is a Unix socket. If the peer's backlog is
// full, it returns an error immediately.
func socketAt(addresses string) (*net.UnixConn, error) {
	for address := range strings.SplitSeq(addresses, ";") {
		keys, ok := strings.CutPrefix(address, "unix:")
		if !ok {
			continue
		}
		for key := range strings.SplitSeq(keys, ",") {
			name, value, _ := strings.Cut(key, "=")
			path, err := dbus.UnescapeBusAddressValue(value)
			if err != nil {
				return nil, err
			}
			switch name {
			case "path":
				return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
			case "abstract":
				return net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + path, Net: "unix"})
			}
		}
	}
	return nil, fmt.Errorf("%q: not the D-Bus address of a Unix socket", addresses)
}

// line is the connection that the library reads and writes. It implements the short handshake.
type line struct {
	net.Conn
	in      *bufio.Reader
	files   *files
	filter  Filter // nil: none
	answers []byte // replies to the library's handshake that it has not read yet
	begun   bool   // the handshake is written; only messages follow
	let     bool   // the peer has accepted the handshake; used by the reader only
	left    int    // unread bytes of the present message; used by the reader only

	greeted chan error // of capacity 1: the result of the handshake
	mu      sync.Mutex
	refused error
}

// handshake is the text that is written to the peer before the first message. The other constants are
// the library's requests and the replies that it expects.
const (
	handshake = "\x00AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"

	askKinds, kinds       = "AUTH\r\n", "REJECTED EXTERNAL\r\n"
	askExternal, external = "AUTH EXTERNAL\r\n", "OK -\r\n"
	start                 = "BEGIN\r\n"
)

// Write answers the library's requests of the handshake. Later it writes messages to the peer.
func (l *line) Write(p []byte) (int, error) {
	if l.begun {
		return l.files.write(p)
	}
	switch string(p) {
	case "\x00":
	case askKinds:
		l.answers = append(l.answers, kinds...)
	case askExternal:
		l.answers = append(l.answers, external...)
	case start:
		l.begun = true
		if _, err := io.WriteString(l.Conn, handshake); err != nil {
			return 0, err
		}
	default:
		return 0, fmt.Errorf("D-Bus handshake: unknown request %q of the library", p)
	}
	return len(p), nil
}

// Read returns the replies to the library's handshake. Later it returns messages of the peer.
func (l *line) Read(p []byte) (int, error) {
	if len(l.answers) > 0 {
		n := copy(p, l.answers)
		l.answers = l.answers[n:]
		return n, nil
	}
	if !l.let {
		if err := l.welcome(); err != nil {
			l.mu.Lock()
			l.refused = err
			l.mu.Unlock()
			l.greeted <- err
			return 0, err
		}
		l.let = true
		l.greeted <- nil
	}
	if l.left == 0 {
		var err error
		if l.left, err = l.begin(); err != nil {
			return 0, err
		}
	}
	n, err := l.in.Read(p[:min(len(p), l.left)])
	l.left -= n
	l.files.handed += int64(n)
	return n, err
}

// welcome reads the peer's replies to the handshake. The last one shows whether the peer accepts file
// descriptors.
func (l *line) welcome() error {
	for in := false; ; {
		text, err := l.in.ReadSlice('\n')
		l.files.handed += int64(len(text))
		if err != nil {
			return err
		}
		switch word, _, _ := strings.Cut(strings.TrimSpace(string(text)), " "); {
		case word == "DATA" && !in:
		case word == "OK" && !in:
			in = true
		case in && (word == "AGREE_UNIX_FD" || word == "ERROR"):
			l.files.agreed.Store(word == "AGREE_UNIX_FD")
			return nil
		default:
			return fmt.Errorf("D-Bus handshake: the peer refuses it (found %q, want OK)", sanitize.Text(word))
		}
	}
}

// why returns the error of the handshake, or err if the handshake succeeded. The library's error says
// only that the connection is closed.
func (l *line) why(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == nil || errors.Is(err, l.refused) {
		return err
	}
	return l.refused
}
