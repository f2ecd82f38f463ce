// Package dbusconn opens the socket of a D-Bus peer: a bus, or PID 1's own. It knows the
// handshake, and of what is said behind it nothing but how much it is.
//
// The library has the handshake as a dialogue of four questions, and reads each message
// in three system calls. What is answered is known beforehand, since there is but one
// way to be let in: by who is at the other end of the socket (SASL's EXTERNAL, see the
// D-Bus specification, "Authentication Protocol"). So it is all written at once, as
// sd-bus does; the library is told what it wants to hear, and what the peer says is
// looked at when it comes. File descriptors are passed in both directions, by [Conn.Exchange]
// alone: the library knows only a stream of bytes here.
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

// Dial connects to a peer that is no bus, and returns when it has been let in.
func Dial(ctx context.Context, address string, options ...dbus.ConnOption) (*Conn, error) {
	return open(ctx, address, func(l *line) error { return <-l.greeted }, options)
}

// Join connects to a bus and becomes one of those on it.
func Join(ctx context.Context, address string, options ...dbus.ConnOption) (*Conn, error) {
	return open(ctx, address, nil, options)
}

func open(ctx context.Context, address string, welcome func(*line) error, options []dbus.ConnOption) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	socket, err := socketAt(address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: socket, files: &files{socket: socket, slots: make(chan struct{}, exchanges)}, greeted: make(chan error, 1)}
	l.in = bufio.NewReader(l.files)
	conn, err := dbus.NewConn(l, options...)
	if err != nil {
		socket.Close()
		return nil, err
	}
	// What follows takes no context.
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

// socketAt connects to the first of the addresses that is a socket in the file system,
// or an abstract one. That does not wait: of a peer that takes nobody in it is an error.
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
	return nil, fmt.Errorf("%q is not the address of a socket", addresses)
}

// line is a socket whose handshake is done without waiting. It is what the library
// reads and writes.
type line struct {
	net.Conn
	in      *bufio.Reader
	files   *files
	answers []byte // to what the library has asked, and not yet read
	begun   bool   // the handshake is written; only messages follow
	let     bool   // the peer has answered all of it; of the one who reads
	left    int    // of the message that is being read; of the one who reads

	greeted chan error // of 1: gets what the peer has answered, nil if it lets dcm in
	mu      sync.Mutex
	refused error
}

// handshake is all that is said before the first message, and these are the questions
// of the library's dialogue, with its answers.
const (
	handshake = "\x00AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"

	askKinds, kinds       = "AUTH\r\n", "REJECTED EXTERNAL\r\n"
	askExternal, external = "AUTH EXTERNAL\r\n", "OK -\r\n"
	start                 = "BEGIN\r\n"
)

// Write takes the library's part of the dialogue, and then messages.
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
		return 0, fmt.Errorf("the library says %q in the handshake, which is not known here", p)
	}
	return len(p), nil
}

// Read is the other side of it.
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

// welcome reads how the peer answers the handshake, up to whether it passes descriptors.
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
			return fmt.Errorf("it does not let dcm in: %q", sanitize.Text(word))
		}
	}
}

// why is the reason behind an error of the library's, which says only that the
// connection is closed.
func (l *line) why(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == nil || errors.Is(err, l.refused) {
		return err
	}
	return l.refused
}
