// Package attack is what users do who mean no good, in a test container: they call the
// daemon without end, become another program while they wait, and end while they are moved
// so that their number becomes another process's.
package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	bus     = "/run/dbus/system_bus_socket"
	name    = "org.deviceconfig.Manager1"
	object  = dbus.ObjectPath("/org/deviceconfig/Manager1")
	atATime = 16
	waiters = 160 // more than one user may have in the queue

	undisturbed = 5 // answers that are timed
)

// Flood makes calls of one kind for so long, as many at a time as a user may have (of those
// that wait for a lease, more), and prints how many were answered.
func Flood(kind string, seconds string, out io.Writer) error {
	n, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	method, arg, err := call(kind)
	if err != nil {
		return err
	}
	var args []any
	if arg != nil {
		args = append(args, arg)
	}
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return err
	}
	defer conn.Close()
	var answered atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n)*time.Second)
	defer cancel()
	n = atATime
	if kind == "wait" {
		n = waiters
	}
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				conn.Object(name, object).CallWithContext(ctx, name+"."+method, 0, args...)
				answered.Add(1)
			}
		})
	}
	all.Wait()
	_, err = fmt.Fprintln(out, answered.Load())
	return err
}

func call(kind string) (method string, arg any, err error) {
	switch kind {
	case "use":
		return "Use", "none", nil
	case "plan":
		return "Plan", "nosuch", nil
	case "dry-run":
		return "Acquire", map[string]dbus.Variant{"dry-run": dbus.MakeVariant(true)}, nil
	case "acquire":
		return "Acquire", map[string]dbus.Variant{"partitions": dbus.MakeVariant(uint32(60000))}, nil
	case "release":
		return "Release", strings.Repeat("x", 1000), nil
	case "wait": // each call waits until its caller has gone
		return "Acquire", map[string]dbus.Variant{"partitions": dbus.MakeVariant(uint32(58)), "wait": dbus.MakeVariant(true)}, nil
	case "account", "history", "usage", "queue":
		return strings.ToUpper(kind[:1]) + kind[1:], nil, nil
	}
	return "", nil, fmt.Errorf("no flood of %q", kind)
}

// asker is a connection whose maker asks for a lease, and reads nothing more.
type asker struct {
	net.Conn
	in *bufio.Reader
}

func ask() (*asker, error) {
	socket, err := net.Dial("unix", bus)
	if err != nil {
		return nil, err
	}
	a := &asker{socket, bufio.NewReader(socket)}
	if _, err := io.WriteString(a, "\x00AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"); err != nil {
		return nil, err
	}
	for range 3 { // DATA, OK, AGREE_UNIX_FD
		if _, err := a.in.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	if err := a.send("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", 1); err != nil {
		return nil, err
	}
	return a, answer(a.in, 1)
}

// acquire asks for a lease.
func (a *asker) acquire(options map[string]dbus.Variant) error {
	return a.send(name, object, name, "Acquire", 2, options)
}

func (a *asker) send(to string, object dbus.ObjectPath, intf, method string, serial uint32, args ...any) error {
	m := dbus.Message{Type: dbus.TypeMethodCall, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to), dbus.FieldPath: dbus.MakeVariant(object),
		dbus.FieldInterface: dbus.MakeVariant(intf), dbus.FieldMember: dbus.MakeVariant(method),
	}, Body: args}
	if len(args) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(args...))
	}
	var text bytes.Buffer
	if err := m.EncodeTo(&text, binary.LittleEndian); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(text.Bytes()[8:], serial)
	_, err := a.Write(text.Bytes())
	return err
}

// answer reads up to the answer to a call. An error that it is is returned.
func answer(in io.Reader, serial uint32) error {
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return err
		}
		if to, _ := m.Headers[dbus.FieldReplySerial].Value().(uint32); to != serial {
			continue
		}
		if m.Type == dbus.TypeError {
			return fmt.Errorf("%v: %v", m.Headers[dbus.FieldErrorName].Value(), m.Body)
		}
		return nil
	}
}

// Become asks for a lease of all there is, waits for the sign that it waits, and becomes
// another program with the connection open.
func Become(ready string, program []string) error {
	a, err := ask()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(ready)
	if err != nil {
		return err
	}
	if err := a.acquire(map[string]dbus.Variant{"wait": dbus.MakeVariant(true), "partitions": dbus.MakeVariant(uint32(n))}); err != nil {
		return err
	}
	// Queued: the request waits by now.
	for {
		m, err := dbus.DecodeMessage(a.in)
		if err != nil {
			return err
		}
		if m.Type == dbus.TypeError {
			return fmt.Errorf("%v", m.Body)
		}
		if m.Headers[dbus.FieldMember].Value() == "Queued" {
			break
		}
	}
	file, err := a.Conn.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // it stays open
		return err
	}
	return syscall.Exec(program[0], program, os.Environ())
}

// Ask is the process that ends while it is moved: it hands its connection to the one that
// has started it (descriptor 3), asks for a lease when that says so, and says when it has.
func Ask() error {
	a, err := ask()
	if err != nil {
		return err
	}
	file, err := a.Conn.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		return err
	}
	if _, err := unix.Read(3, make([]byte, 1)); err != nil {
		return err
	}
	if err := a.acquire(map[string]dbus.Variant{"time": dbus.MakeVariant(uint64(60_000_000))}); err != nil {
		return err
	}
	if _, err := unix.Write(3, []byte{0}); err != nil {
		return err
	}
	_, err = unix.Read(3, make([]byte, 1)) // until it is killed
	return err
}

// Reuse has a user's process ask so many times, kills it at some moment of the time that an
// answer takes, and gives its number to a process of root's. It prints what became of them.
func Reuse(uid, gid, group, tries string, out io.Writer) error {
	ids := make([]int, 4)
	for i, text := range []string{uid, gid, group, tries} {
		var err error
		if ids[i], err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { keepBusy(stop) })
	defer busy.Wait()
	defer close(stop)
	ask := func(wait func(conn net.Conn)) (string, error) {
		return reuse(uint32(ids[0]), uint32(ids[1]), uint32(ids[2]), wait)
	}
	var takes time.Duration // mean of some answers
	for range undisturbed {
		if _, err := ask(func(conn net.Conn) {
			began := time.Now()
			_ = answer(bufio.NewReader(conn), 2)
			takes += time.Since(began) / undisturbed
		}); err != nil {
			return err
		}
	}
	count := make(map[string]int)
	for range ids[3] {
		what, err := ask(func(net.Conn) {
			time.Sleep(rand.N(takes + takes/4)) // the moment is what is tried
		})
		if err != nil {
			return err
		}
		count[what]++
	}
	_, err := fmt.Fprintln(out, count, "an answer takes", takes)
	return err
}

// keepBusy has PID 1 answer what any user may ask.
func keepBusy(stop <-chan struct{}) {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		select {
		case <-stop:
			return
		default:
			conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1").Call("org.freedesktop.systemd1.Manager.ListUnits", 0)
		}
	}
}

// reuse has one process ask, and kills it when wait returns. wait may read the answer.
func reuse(uid, gid, group uint32, wait func(net.Conn)) (what string, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	cmd := exec.Command("/proc/self/exe", "attack", "ask")
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{group}}}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return "", err
	}
	pid := cmd.Process.Pid
	oob := make([]byte, unix.CmsgSpace(4))
	_, oobn, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, 0)
	if err != nil || oobn == 0 {
		return "", errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	list, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return "", err
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil {
		return "", err
	}
	conn := os.NewFile(uintptr(fds[0]), "connection")
	defer conn.Close()
	socket, err := net.FileConn(conn)
	if err != nil {
		return "", err
	}
	defer socket.Close()
	_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := unix.Write(pair[0], []byte{0}); err != nil {
		return "", err
	}
	if _, err := unix.Read(pair[0], make([]byte, 1)); err != nil {
		return "", err
	}
	read := &once{Conn: socket}
	wait(read)
	cmd.Process.Kill()
	cmd.Wait()
	victim, err := victimOf(pid)
	if err != nil {
		return "", err
	}
	if victim == nil {
		return "number taken", nil
	}
	defer victim.Wait()
	defer victim.Process.Kill()
	what = "given before the end"
	if !read.used {
		if err := answer(bufio.NewReader(socket), 2); errors.Is(err, os.ErrDeadlineExceeded) {
			return "", err
		} else if err != nil {
			what = "refused"
		}
	}
	// A process that was killed is a zombie: it is this one's child.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || strings.Contains(string(status), "State:\tZ") {
		return "", fmt.Errorf("process %d of root's was killed: %v", pid, err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	its, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	switch cgroup := unified(its); {
	case cgroup == unified(own):
	case path.Dir(cgroup) == path.Dir(unified(own)) && strings.HasPrefix(path.Base(cgroup), "moved-"):
		// systemd moves no process back into a unit without Delegate=.
		what += ", and moved out of the lease"
	default:
		return "", fmt.Errorf("process %d of root's is left in %s", pid, its)
	}
	return what, nil
}

// unified is the path of a cgroup in the unified hierarchy, of /proc/PID/cgroup.
func unified(list []byte) string {
	for line := range strings.Lines(string(list)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// once is a connection that notes whether it was read from.
type once struct {
	net.Conn
	used bool
}

func (o *once) Read(b []byte) (int, error) {
	o.used = true
	return o.Conn.Read(b)
}

// victimOf starts a process that has the number, nil if another one has it.
func victimOf(pid int) (*exec.Cmd, error) {
	for range 5 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return nil, err
		}
		cmd := exec.Command("sleep", "infinity")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		if cmd.Process.Pid == pid {
			return cmd, nil
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	return nil, nil
}
