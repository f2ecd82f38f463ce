package dbusconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"dcm/internal/testkit/testdeadline"
)

// peer is the other end of a connection. It makes the handshake.
type peer struct {
	auth     string // the reply to the authentication
	files    string // the reply to the negotiation of file descriptors
	messages []byte // sent after the handshake
	more     func(*net.UnixConn)
}

// accepting returns a peer that accepts the handshake.
func accepting() peer {
	return peer{auth: "OK 0123456789abcdef\r\n", files: "AGREE_UNIX_FD\r\n", more: func(*net.UnixConn) {}}
}

// listen serves one client, and reports when it has connected.
func (p peer) listen(t *testing.T) (address string, came <-chan struct{}) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connected := make(chan struct{})
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		close(connected)
		t.Cleanup(func() { conn.Close() })
		if p.greet(conn) {
			conn.Write(p.messages)
			p.more(conn)
		}
		io.Copy(io.Discard, conn)
	}()
	return "unix:path=" + dbus.EscapeBusAddressValue(path), connected
}

// greet makes the handshake. It reads single bytes, so that it does not read a message.
func (p peer) greet(conn *net.UnixConn) bool {
	line := ""
	for one := make([]byte, 1); ; {
		if _, err := conn.Read(one); err != nil {
			return false
		}
		if line += string(one); one[0] != '\n' {
			continue
		}
		word, _, _ := strings.Cut(strings.Trim(line, "\x00\r\n"), " ")
		switch {
		case word == "BEGIN":
			io.WriteString(conn, p.files)
			return true
		case word == "NEGOTIATE_UNIX_FD": // the client sends BEGIN without a reply
		case strings.Trim(line, "\x00\r\n") == "AUTH":
			io.WriteString(conn, "REJECTED EXTERNAL\r\n")
		default:
			io.WriteString(conn, p.auth)
		}
		line = ""
	}
}

// dbus-broker replies to GetConnectionCredentials with a descriptor, and disconnects a client that
// does not accept it.
func TestSignal_DescriptorsAreClosed(t *testing.T) {
	message := dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath("/")), dbus.FieldInterface: dbus.MakeVariant("a.b"), dbus.FieldMember: dbus.MakeVariant("C"),
		dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(dbus.UnixFDIndex(0))), dbus.FieldUnixFDs: dbus.MakeVariant(uint32(1)),
	}, Body: []any{dbus.UnixFDIndex(0)}}
	var encoded bytes.Buffer
	if err := message.EncodeTo(&encoded, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	address, _ := peer{auth: accepting().auth, files: accepting().files, more: func(c *net.UnixConn) {
		_, _, err := c.WriteMsgUnix(encoded.Bytes(), unix.UnixRights(int(theirs.Fd())), nil)
		if err := errors.Join(err, theirs.Close()); err != nil {
			t.Error(err)
		}
	}}.listen(t)
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The pipe ends when all descriptors of its other end are closed.
	if _, err := io.ReadAll(ours); err != nil {
		t.Fatal(err)
	}
	if !conn.Connected() {
		t.Error("the connection was closed, too")
	}
}

// ear gets the names of the signals.
type ear chan string

func (e ear) DeliverSignal(_, _ string, s *dbus.Signal) { e <- s.Name }

// The library would decode the whole message, in many times its size.
func TestMessage_TooLarge(t *testing.T) {
	var sent bytes.Buffer
	say := func(kind dbus.Type, o binary.ByteOrder, member string, size int) {
		m := dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath("/")), dbus.FieldInterface: dbus.MakeVariant("a.b"),
			dbus.FieldMember: dbus.MakeVariant(member), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf("")),
		}, Body: []any{strings.Repeat("x", size)}}
		if err := m.EncodeTo(&sent, o); err != nil {
			t.Fatal(err)
		}
	}
	say(dbus.TypeSignal, binary.LittleEndian, "One", 10)
	say(dbus.TypeSignal, binary.LittleEndian, "Large", largest)
	say(dbus.TypeMethodCall, binary.BigEndian, "Large", largest)
	say(dbus.TypeSignal, binary.BigEndian, "Two", 1)
	say(dbus.TypeSignal, binary.LittleEndian, "Three", largest/2)
	address, _ := peer{auth: accepting().auth, files: accepting().files, more: func(c *net.UnixConn) {
		if _, err := c.Write(sent.Bytes()); err != nil {
			t.Error(err)
		}
	}}.listen(t)
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	heard := make(ear, 10)
	conn, err := Dial(ctx, address, nil, dbus.WithSignalHandler(heard))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, want := range []string{"a.b.One", "a.b.Two", "a.b.Three"} {
		select {
		case name := <-heard:
			if name != want {
				t.Errorf("signal %s, want %s", name, want)
			}
		case <-ctx.Done():
			t.Fatalf("no signal %s", want)
		}
	}
}

// PID 1 sends the changes of all units to each private connection.
func TestSignal_Filtered(t *testing.T) {
	var sent bytes.Buffer
	for i, member := range []string{"Unhandled", "Handled", "Unhandled", "Handled"} {
		m := dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldSender: dbus.MakeVariant("org.freedesktop.systemd1"), dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(fmt.Sprintf("/%d", i))),
			dbus.FieldInterface: dbus.MakeVariant("a.b"), dbus.FieldMember: dbus.MakeVariant(member), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf("")),
		}, Body: []any{strings.Repeat("x", i)}}
		if err := m.EncodeTo(&sent, []binary.ByteOrder{binary.LittleEndian, binary.BigEndian}[i/2]); err != nil {
			t.Fatal(err)
		}
	}
	p := accepting()
	p.messages = sent.Bytes()
	address, _ := p.listen(t)
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	heard, asked := make(ear, 4), make(chan string, 4)
	conn, err := Dial(ctx, address, func(path, iface, member string) bool {
		asked <- path + " " + iface + " " + member
		return member == "Handled"
	}, dbus.WithSignalHandler(heard))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		select {
		case name := <-heard:
			if name != "a.b.Handled" {
				t.Errorf("got the signal %q", name)
			}
		case <-ctx.Done():
			t.Fatal("too few signals arrive")
		}
	}
	for _, want := range []string{"/0 a.b Unhandled", "/1 a.b Handled", "/2 a.b Unhandled", "/3 a.b Handled"} {
		if got := <-asked; got != want {
			t.Errorf("the filter is called with %q, want %q", got, want)
		}
	}
	if len(heard) > 0 {
		t.Errorf("got the signal %q, too", <-heard)
	}
}

func dialUnfiltered(ctx context.Context, address string, options ...dbus.ConnOption) (*Conn, error) {
	return Dial(ctx, address, nil, options...)
}

func joinDeaf(ctx context.Context, address string, options ...dbus.ConnOption) (*Conn, error) {
	return Join(ctx, address, nil, options...)
}

func TestJoin_Refused(t *testing.T) {
	for _, connect := range []func(context.Context, string, ...dbus.ConnOption) (*Conn, error){dialUnfiltered, joinDeaf} {
		address, _ := peer{auth: "REJECTED EXTERNAL\r\n"}.listen(t)
		ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
		_, err := connect(ctx, address)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "authentication failed") {
			t.Errorf("error: got %v", err)
		}
	}
}

func TestJoin_SilentPeer(t *testing.T) {
	for _, connect := range []func(context.Context, string, ...dbus.ConnOption) (*Conn, error){dialUnfiltered, joinDeaf} {
		address, heard := peer{}.listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-heard; cancel() }()
		if _, err := connect(ctx, address); err == nil {
			t.Error("no error")
		}
	}
}

func TestSocketAt_InvalidAddress(t *testing.T) {
	if _, err := Dial(t.Context(), "unix:dir=/tmp", nil); err == nil || !strings.Contains(err.Error(), "unix:dir=/tmp") {
		t.Errorf("error: got %v", err)
	}
	var gone *net.OpError
	if _, err := Dial(t.Context(), "unix:path=/nonexistent/socket", nil); !errors.As(err, &gone) {
		t.Errorf("error: got %v", err)
	}
}

// exchanged replies to one call with the descriptors of some pipes, and sends a signal with one before
// and after it. It returns the descriptors of the call.
func exchanged(t *testing.T, served chan<- []*os.File, pipes []*os.File, stray *os.File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		defer close(served)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
		if !accepting().greet(c) {
			return
		}
		buf, oob := make([]byte, 4096), make([]byte, 4096)
		n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil {
			return
		}
		served <- received(oob[:oobn])
		call, err := dbus.DecodeMessage(bytes.NewReader(buf[:n]))
		if err != nil {
			t.Error(err)
			return
		}
		signal := dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath("/")), dbus.FieldInterface: dbus.MakeVariant("a.b"), dbus.FieldMember: dbus.MakeVariant("C"),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(dbus.UnixFDIndex(0))), dbus.FieldUnixFDs: dbus.MakeVariant(uint32(1)),
		}, Body: []any{dbus.UnixFDIndex(0)}}
		reply := dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()), dbus.FieldUnixFDs: dbus.MakeVariant(uint32(len(pipes))), dbus.FieldSender: dbus.MakeVariant(strings.Repeat("x", 200)),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf([]dbus.UnixFDIndex{})),
		}, Body: []any{[]dbus.UnixFDIndex{0, 1}}}
		for _, m := range []struct {
			dbus.Message
			files []*os.File
		}{{signal, []*os.File{stray}}, {reply, pipes}, {signal, []*os.File{stray}}} {
			var encoded bytes.Buffer
			if err := m.EncodeTo(&encoded, binary.BigEndian); err != nil {
				t.Error(err)
			}
			var fds []int
			for _, f := range m.files {
				fds = append(fds, int(f.Fd()))
			}
			if _, _, err := c.WriteMsgUnix(encoded.Bytes(), unix.UnixRights(fds...), nil); err != nil {
				t.Error(err)
			}
		}
		stray.Close()
		for _, p := range pipes {
			p.Close()
		}
		io.Copy(io.Discard, c)
	}()
	return "unix:path=" + dbus.EscapeBusAddressValue(path)
}

func TestExchange_PassesDescriptors(t *testing.T) {
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r, w
	}
	first, firstIn := pipe()
	second, secondIn := pipe()
	other, stray := pipe()
	mine, mineIn := pipe()
	served := make(chan []*os.File, 1)
	address := exchanged(t, served, []*os.File{firstIn, secondIn}, stray)
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	msg := &dbus.Message{Type: dbus.TypeMethodCall, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath("/")), dbus.FieldMember: dbus.MakeVariant("Get"),
		dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf([]dbus.UnixFDIndex{})),
	}, Body: []any{[]dbus.UnixFDIndex{0}}}
	call, files := conn.Exchange(ctx, msg, mineIn)
	mineIn.Close()
	if call.Err != nil || len(files) != 2 {
		t.Fatalf("%v, %d descriptors", call.Err, len(files))
	}
	theirs := <-served
	if len(theirs) != 1 {
		t.Fatalf("%d descriptors of the call", len(theirs))
	}
	for i, c := range []struct{ w, r *os.File }{{files[0], first}, {files[1], second}, {theirs[0], mine}} {
		io.WriteString(c.w, "x")
		c.w.Close()
		if got, err := io.ReadAll(c.r); string(got) != "x" || err != nil {
			t.Errorf("descriptor %d is another one: %q, %v", i, got, err)
		}
	}
	// The descriptors of signals are closed.
	if _, err := io.ReadAll(other); err != nil {
		t.Error(err)
	}
}

func TestExchange_PeerWithoutDescriptors(t *testing.T) {
	p := accepting()
	p.files = "ERROR\r\n"
	address, _ := p.listen(t)
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if call, _ := conn.Exchange(ctx, &dbus.Message{}, os.Stdin); !errors.Is(call.Err, ErrNoFiles) {
		t.Errorf("error: got %v", call.Err)
	}
}

func FuzzNumber(f *testing.F) {
	var encoded bytes.Buffer
	m := dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(uint32(7)), dbus.FieldSender: dbus.MakeVariant("a.b"), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf("")),
	}, Body: []any{"x"}}
	if err := m.EncodeTo(&encoded, binary.LittleEndian); err != nil {
		f.Fatal(err)
	}
	if n, ok := number(encoded.Bytes(), replySerial); !ok || n != 7 {
		f.Fatalf("the serial is %d, %t", n, ok)
	}
	f.Add(encoded.Bytes(), byte(replySerial))
	f.Fuzz(func(t *testing.T, head []byte, code byte) { number(head, code) })
}
