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

// ErrNoFiles is returned if the peer does not accept file descriptors.
var ErrNoFiles = errors.New("D-Bus: the peer does not accept file descriptors")

// Exchange makes a call with file descriptors, to which [dbus.UnixFDIndex] values in the message
// refer. It returns the descriptors of the reply, which the caller must close. Descriptors that
// arrive with other messages are closed.
func (c *Conn) Exchange(ctx context.Context, msg *dbus.Message, send ...*os.File) (*dbus.Call, []*os.File) {
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

// files passes descriptors in addition to the bytes of a socket. The kernel delivers descriptors
// together with the first of the bytes that they were sent with. The same recvmsg(2) returns no bytes
// that were sent later (unix(7), SCM_RIGHTS). So the descriptors of one read belong to the last
// message of that read.
type files struct {
	socket *net.UnixConn
	agreed atomic.Bool
	slots  chan struct{} // one entry for each active exchange

	// Used by the reader only.
	read   int64 // bytes received
	handed int64 // bytes passed to the library
	came   []batch
	oob    []byte

	writing sync.Mutex // one message at a time
	sending sync.Mutex
	next    []*os.File // descriptors of the message that is being sent

	mu       sync.Mutex
	expected int                   // active calls that accept descriptors
	taken    map[uint32][]*os.File // received descriptors, by the serial of the call
}

// exchanges limits the concurrent calls whose replies may have descriptors. For one connection a bus
// queues at most max_outgoing_unix_fds descriptors (dbus-daemon(1), 64 by default) and drops further
// replies.
const exchanges = 16

// batch contains the descriptors of one read.
type batch struct {
	end  int64 // position after the bytes that they arrived with
	list []*os.File
}

// most is the kernel's limit of descriptors in one message (SCM_MAX_FD).
const most = 253

// Read reads bytes and records the descriptors that arrive with them.
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

// assign assigns the descriptors of the next message to the call that the message replies to. size is
// the size of the message.
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

// answered returns the serial of the call that the next message replies to. If the header does not fit
// into the buffer, the message is not a reply, since replies have short headers.
func answered(in *bufio.Reader) (serial uint32, ok bool) {
	head := header(in, answer)
	if head == nil {
		return 0, false
	}
	return number(head, replySerial)
}

func closeAll(list []*os.File) {
	for _, file := range list {
		file.Close()
	}
}

// expect adds n to the number of active calls that accept descriptors. When it is 0, the descriptors
// of canceled calls are closed.
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
	defer f.setNext(nil) // the library writes the message before it returns
	return conn.SendWithContext(ctx, msg, make(chan *dbus.Call, 1))
}

func (f *files) setNext(list []*os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = list
}

// write writes one message. If its header has the field UNIX_FDS, the descriptors go with it.
func (f *files) write(p []byte) (int, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
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
	rest, err := f.socket.Write(p[sent:]) // the socket may have accepted only a part
	return sent + rest, err
}
