package dbusconn

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// ErrNoFiles is that of a peer that passes no file descriptors.
var ErrNoFiles = errors.New("the peer passes no file descriptors")

// Exchange makes a call with descriptors. In the message they are [dbus.UnixFDIndex] values,
// which count them; those that come with the answer are returned, and are the caller's to
// close. Descriptors that come with anything else are closed.
func (c *Conn) Exchange(ctx context.Context, msg *dbus.Message, send ...*os.File) (*dbus.Call, []*os.File) {
	if c.line == nil {
		return <-c.SendWithContext(ctx, msg, make(chan *dbus.Call, 1)).Done, nil
	}
	f := c.line.files
	if len(send) > 0 && !f.agreed.Load() {
		return &dbus.Call{Err: ErrNoFiles}, nil
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return &dbus.Call{Err: ctx.Err()}, nil
	}
	f.expect(1)
	defer f.expect(-1)
	call := f.send(ctx, c.Conn, msg, send)
	<-call.Done
	return call, f.take(msg.Serial())
}

// Plain is a connection that passes no descriptors.
func Plain(c *dbus.Conn) *Conn { return &Conn{Conn: c} }

// files passes descriptors beside the bytes of a socket. The kernel hands those that were
// sent with some bytes over with the first of them, and reads on to no later message in the
// same recvmsg(2) (unix(7), SCM_RIGHTS): so they belong to the message in which the bytes
// end that were read with them.
type files struct {
	socket *net.UnixConn
	agreed atomic.Bool
	slots  chan struct{} // of exchanges: calls under way that take descriptors

	// Of the one who reads.
	read   int64 // bytes that came in
	handed int64 // bytes that were handed on
	came   []batch
	oob    []byte

	sending sync.Mutex
	next    []*os.File // that go with the message that is being sent

	mu       sync.Mutex
	expected int                   // calls under way that take descriptors
	taken    map[uint32][]*os.File // by the serial of the call
}

// exchanges is how many calls may be under way whose answers may have descriptors. A bus
// queues only so many for one connection (max_outgoing_unix_fds in dbus-daemon(1), 64 by
// default), and drops the answers beyond that.
const exchanges = 16

// batch is the descriptors of one read.
type batch struct {
	end  int64 // of the bytes that they came with
	list []*os.File
}

// most is how many descriptors the kernel passes at a time (SCM_MAX_FD).
const most = 253

// Read reads bytes, and notes the descriptors that come with them.
func (f *files) Read(p []byte) (int, error) {
	if f.oob == nil {
		f.oob = make([]byte, unix.CmsgSpace(most*4))
	}
	n, oobn, _, _, err := f.socket.ReadMsgUnix(p, f.oob)
	f.read += int64(max(n, 0))
	if list := received(f.oob[:oobn]); len(list) > 0 {
		f.came = append(f.came, batch{f.read, list})
	}
	return max(n, 0), err
}

func received(oob []byte) []*os.File {
	if len(oob) == 0 {
		return nil
	}
	var out []*os.File
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			out = append(out, os.NewFile(uintptr(fd), "received"))
		}
	}
	return out
}

// assign gives the descriptors of a message of that size, which is read next, to the call
// that it answers.
func (f *files) assign(in *bufio.Reader, size int) {
	for len(f.came) > 0 && f.came[0].end <= f.handed+int64(size) {
		list := f.came[0].list
		f.came = f.came[1:]
		f.keep(in, list)
	}
}

func (f *files) keep(in *bufio.Reader, list []*os.File) {
	serial, ok := answered(in)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !ok || f.expected == 0 {
		closeAll(list)
		return
	}
	if f.taken == nil {
		f.taken = make(map[uint32][]*os.File)
	}
	f.taken[serial] = append(f.taken[serial], list...)
}

// answered returns the serial of the call that the next message answers. Headers of answers
// are short: one that does not fit is of something else.
func answered(in *bufio.Reader) (serial uint32, ok bool) {
	head, err := in.Peek(fixed)
	if err != nil || head[kind] != answer {
		return 0, false
	}
	size := fixed + int(orderOf(head).Uint32(head[field:]))
	if size > in.Size() || size < fixed {
		return 0, false
	}
	if head, err = in.Peek(size); err != nil {
		return 0, false
	}
	return number(head, replySerial)
}

func closeAll(list []*os.File) {
	for _, file := range list {
		file.Close()
	}
}

// expect counts the calls that take descriptors. What came for one that was given up goes
// with the last of them.
func (f *files) expect(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected += n
	if f.expected > 0 {
		return
	}
	for _, list := range f.taken {
		closeAll(list)
	}
	f.taken = nil
}

func (f *files) take(serial uint32) []*os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.taken[serial]
	delete(f.taken, serial)
	return list
}

func (f *files) send(ctx context.Context, conn *dbus.Conn, msg *dbus.Message, list []*os.File) *dbus.Call {
	if len(list) == 0 {
		return conn.SendWithContext(ctx, msg, make(chan *dbus.Call, 1))
	}
	f.sending.Lock()
	defer f.sending.Unlock()
	msg.Headers[dbus.FieldUnixFDs] = dbus.MakeVariant(uint32(len(list)))
	f.setNext(list)
	defer f.setNext(nil) // the library has written the message when it returns
	return conn.SendWithContext(ctx, msg, make(chan *dbus.Call, 1))
}

func (f *files) setNext(list []*os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = list
}

// write writes one message. The one that says so in its header takes the descriptors.
func (f *files) write(p []byte) (int, error) {
	f.mu.Lock()
	list := f.next
	f.mu.Unlock()
	if len(list) == 0 {
		return f.socket.Write(p)
	}
	n, ok := number(p, unixFDs)
	if !ok || int(n) != len(list) {
		return f.socket.Write(p)
	}
	fds := make([]int, 0, len(list))
	for _, file := range list {
		fds = append(fds, int(file.Fd()))
	}
	sent, _, err := f.socket.WriteMsgUnix(p, unix.UnixRights(slices.Clip(fds)...), nil)
	if err != nil || sent == len(p) {
		return sent, err
	}
	rest, err := f.socket.Write(p[sent:]) // a socket buffer may take a part alone
	return sent + rest, err
}
