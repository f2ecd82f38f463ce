// Package dbusconn connects to a D-Bus peer: a bus, or the private socket of PID 1. It limits the size
// of messages, gives method calls to a [Receiver] before they are read, and passes file descriptors. It
// does not interpret messages.
//
// The library (godbus) makes the handshake and handles replies and signals. For the library the
// connection is a stream of bytes. This package adds the negotiation of file descriptors to the
// handshake, since the library offers it only for its own sockets. There it would leave the
// descriptors of unexpected messages open. [Conn.Exchange] passes descriptors in both directions.
package dbusconn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/godbus/dbus/v5"
)

// Conn is a connection.
type Conn struct {
	*dbus.Conn
	line *line
}

// Dial connects to a peer that is not a bus. It returns after the peer has accepted the handshake. filter may be
// nil.
func Dial(ctx context.Context, address string, filter Filter, options ...dbus.ConnOption) (*Conn, error) {
	return open(ctx, address, filter, nil, func(*dbus.Conn) error { return nil }, options)
}

// Join connects to a bus and calls Hello. If receive is nil, method calls are dropped.
func Join(ctx context.Context, address string, receive Receiver, options ...dbus.ConnOption) (*Conn, error) {
	return open(ctx, address, nil, receive, (*dbus.Conn).Hello, options)
}

func open(ctx context.Context, address string, filter Filter, receive Receiver, hello func(*dbus.Conn) error, options []dbus.ConnOption) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	socket, err := socketAt(address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: socket, filter: filter, receive: receive, files: &files{socket: socket, slots: make(chan struct{}, exchanges)}}
	l.in = bufio.NewReaderSize(l.files, bufferSize)
	conn, err := dbus.NewConn(l, options...)
	if err != nil {
		socket.Close()
		return nil, err
	}
	// Auth and Hello take no context.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err == nil {
		err = hello(conn)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
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

// bufferSize is the size of the buffer for received messages. The header of a call must fit.
const bufferSize = 16 << 10

// line is the connection that the library reads and writes.
type line struct {
	net.Conn
	in      *bufio.Reader
	files   *files
	filter  Filter      // nil: none
	receive Receiver    // nil: none
	begun   atomic.Bool // the handshake is complete; only messages follow
	left    int         // unread bytes of the present message; used by the reader only
	replies atomic.Uint32
}

// Lines of the handshake (D-Bus specification, "Authentication Protocol").
const (
	begin     = "BEGIN\r\n"
	negotiate = "NEGOTIATE_UNIX_FD\r\n"
	agree     = "AGREE_UNIX_FD\r\n"
)

// Write writes a line of the handshake or one message. The last line of the handshake is BEGIN.
func (l *line) Write(p []byte) (int, error) {
	if l.begun.Load() {
		return l.files.write(p)
	}
	if string(p) != begin {
		return l.Conn.Write(p)
	}
	if err := l.negotiate(); err != nil {
		return 0, err
	}
	l.begun.Store(true)
	return len(p), nil
}

// negotiate asks the peer to accept file descriptors, and ends the handshake. The library does not read
// concurrently. Both lines are one write, and the reply shows that the peer has read them. PID 1 (sd-bus, seen with
// 252 and 257) does not process a message that it receives together with BEGIN until it receives another one.
func (l *line) negotiate() error {
	if _, err := io.WriteString(l.Conn, negotiate+begin); err != nil {
		return err
	}
	reply, err := l.in.ReadSlice('\n')
	l.files.handed += int64(len(reply))
	l.files.agreed.Store(string(reply) == agree)
	return err
}

// Read returns lines of the handshake, and then messages of the peer.
func (l *line) Read(p []byte) (int, error) {
	if !l.begun.Load() {
		n, err := l.in.Read(p)
		l.files.handed += int64(n)
		return n, err
	}
	if l.left == 0 {
		var err error
		if l.left, err = l.next(); err != nil {
			return 0, err
		}
	}
	n, err := l.in.Read(p[:min(len(p), l.left)])
	l.left -= n
	l.files.handed += int64(n)
	return n, err
}
