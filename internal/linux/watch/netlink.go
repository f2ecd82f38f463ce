package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ueventSize is the size of the buffer for a message of the kernel, in bytes. Messages are shorter:
// UEVENT_BUFFER_SIZE (2048) and the path.
const ueventSize = 8 << 10

// kernelGroup is the multicast group of the kernel's messages. udev's messages have group 2.
const kernelGroup = 1

// openUevents returns a socket that receives the kernel's messages. It needs no privilege
// (NL_CFG_F_NONROOT_RECV). It also receives them in another network namespace, if the initial user
// namespace owns that one, since devices do not belong to network namespaces
// (uevent_net_broadcast_untagged).
func openUevents() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("cannot listen to the kernel's device events: %w", os.NewSyscallError("socket", err))
	}
	err = os.NewSyscallError("setsockopt", dropVirtual(fd))
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}))
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot listen to the kernel's device events: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// dropVirtual makes the kernel drop messages about /devices/virtual: each mount of a container
// causes one and would wake the reader. Devices with a driver are elsewhere.
func dropVirtual(fd int) error {
	const load, equal, give = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	word := binary.BigEndian.Uint32([]byte("virt"))
	const at = uint32(len("@/devices/"))
	// The offset depends on the length of the action: add (3); move, bind (4); change, remove (6).
	filter := []unix.SockFilter{
		{Code: load, K: 3 + at}, {Code: equal, Jt: 5, K: word},
		{Code: load, K: 4 + at}, {Code: equal, Jt: 3, K: word},
		{Code: load, K: 6 + at}, {Code: equal, Jt: 1, K: word},
		{Code: give, K: ueventSize},
		{Code: give, K: 0},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// readUevents calls changed for each message for which about returns true, and when messages were
// lost. It returns when the socket is closed or cannot be read.
//
// It accepts only messages of the kernel, which have port 0; udev repeats them. A privileged process
// can make the kernel send a message (uevent_net_rcv_skb). That is harmless, since a message only
// causes dcm to read the devices again.
func readUevents(socket *os.File, about func(Uevent) bool, changed func()) error {
	conn, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, ueventSize)
	for {
		n, from, err := receive(conn, buf)
		sender, _ := from.(*unix.SockaddrNetlink)
		switch {
		case errors.Is(err, unix.ENOBUFS): // messages were lost
			changed()
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("cannot read the kernel's device events: %w", err)
		case sender == nil || sender.Pid != 0:
		default:
			if u, ok := parseUevent(buf[:n]); ok && about(u) {
				changed()
			}
		}
	}
}

// receive waits for a message without blocking a thread.
func receive(conn syscall.RawConn, buf []byte) (n int, from unix.Sockaddr, err error) {
	waited := conn.Read(func(fd uintptr) bool {
		n, from, err = unix.Recvfrom(int(fd), buf, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	if waited != nil {
		err = waited
	}
	return n, from, err
}
