// Package caller identifies the process that makes a request: by a pidfd, which always refers to the
// same process, and by the user who owns it. It does not know how the request arrived.
package caller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unidentified is the owner of a process that ended before its owner was determined. No user has this
// ID (chown(2)).
const Unidentified = ^uint32(0)

// Process is a process with a pidfd. The zero value is no process.
type Process struct {
	PID   int
	UID   uint32 // as the bus or the socket reports it, in dcm's own user namespace
	Owner uint32 // the user outside of the process's user namespace; see the function owner

	proc  string // "/proc"
	pidfd *os.File
}

// ErrEnded is returned if the process has ended. Another process may have its PID now.
var ErrEnded = errors.New("has ended")

// Open opens the process that has the PID now.
func Open(proc string, pid int, uid uint32) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, because(pid, err)
	}
	return FromFD(proc, os.NewFile(uintptr(fd), "pidfd"), pid, uid)
}

// FromFD returns the process of a pidfd. The Process closes the pidfd.
func FromFD(proc string, pidfd *os.File, pid int, uid uint32) (*Process, error) {
	p := &Process{PID: pid, UID: uid, proc: proc, pidfd: pidfd}
	var err error
	if p.Owner, err = owner(filepath.Join(proc, strconv.Itoa(pid), "ns/user"), filepath.Join(proc, "self/ns/user"), uid); err == nil {
		err = p.alive() // if it has ended, the owner may have been read from another process with this PID
	}
	if err != nil {
		p.Close()
		return nil, because(pid, err)
	}
	return p, nil
}

func because(pid int, err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		err = ErrEnded
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// Close closes the pidfd.
func (p *Process) Close() error {
	if p == nil || p.pidfd == nil {
		return nil
	}
	return p.pidfd.Close()
}

// FD returns the pidfd. The caller must not close it.
func (p *Process) FD() *os.File { return p.pidfd }

// Check returns an error if the process has ended, or if one of its user IDs is not UID: after the
// execution of a set-user-ID program, the same process has the rights of another user.
func (p *Process) Check() error {
	ids, err := uids(p.proc, p.PID)
	if err == nil {
		err = p.alive()
	}
	if err != nil {
		return because(p.PID, err)
	}
	if slices.ContainsFunc(ids, func(id uint32) bool { return id != p.UID }) {
		return fmt.Errorf("process %d: has the rights of more than one user (found uids %v, want %d alone)", p.PID, ids, p.UID)
	}
	return nil
}

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool { return p.alive() == nil }

// alive returns [ErrEnded] if the process has ended. The pidfd is then readable, even if the process
// is still a zombie (pidfd_open(2)).
func (p *Process) alive() error {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 0)
		for err == unix.EINTR { // poll(2) is not restarted after a signal, signal(7)
			n, err = unix.Poll(set, 0)
		}
		switch {
		case err != nil:
			failed = err
		case n > 0:
			failed = ErrEnded
		}
	})
	return errors.Join(err, failed)
}

// Parent returns the parent of a process, and the process's real user.
func Parent(proc string, pid int) (parent int, uid uint32, err error) {
	all, err := status(proc, pid, "PPid:", "Uid:")
	if err != nil {
		return 0, 0, because(pid, err)
	}
	return int(all[0][0]), all[1][0], nil
}

// uids returns the real, effective, saved and file system user of a process.
func uids(proc string, pid int) ([]uint32, error) {
	all, err := status(proc, pid, "Uid:")
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// status reads lines of numbers of proc_pid_status(5).
func status(proc string, pid int, keys ...string) ([][]uint32, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return nil, err
	}
	out := make([][]uint32, len(keys))
	for line := range strings.Lines(string(text)) {
		for i, key := range keys {
			list, ok := strings.CutPrefix(line, key)
			if !ok {
				continue
			}
			for field := range strings.FieldsSeq(list) {
				n, err := strconv.ParseUint(field, 10, 32)
				if err != nil {
					return nil, err
				}
				out[i] = append(out[i], uint32(n))
			}
		}
	}
	for i, key := range keys {
		if len(out[i]) == 0 {
			return nil, fmt.Errorf("the kernel does not report %s", strings.TrimSuffix(key, ":"))
		}
	}
	return out, nil
}

// owner returns the user to whom limits and leases of a process are accounted. In a user namespace a
// user can run processes with all of its subordinate IDs (subuid(5)). So the owner is the user who
// created the namespace or, of nested namespaces, the outermost one below dcm's. If root created it,
// or there is none, the owner is uid.
func owner(theirs, own string, uid uint32) (uint32, error) {
	if uid == 0 {
		return 0, nil
	}
	base, err := os.Stat(own)
	if err != nil {
		return 0, err
	}
	ns, err := os.Open(theirs)
	if err != nil {
		return 0, err
	}
	defer func() { ns.Close() }()
	first := true
	for {
		now, err := ns.Stat()
		if err != nil {
			return 0, err
		}
		if first && os.SameFile(now, base) {
			return uid, nil
		}
		first = false
		parent, err := parentOf(ns)
		if err != nil {
			return 0, err
		}
		above, err := parent.Stat()
		if err != nil {
			parent.Close()
			return 0, err
		}
		if os.SameFile(above, base) {
			parent.Close()
			break
		}
		ns.Close()
		ns = parent
	}
	id, err := unix.IoctlGetUint32(int(ns.Fd()), unix.NS_GET_OWNER_UID)
	if err != nil {
		return 0, fmt.Errorf("cannot read the owner of its user namespace: %w", err)
	}
	if id == 0 {
		return uid, nil
	}
	return id, nil
}

// parentOf returns the parent of a user namespace, see ioctl_nsfs(2).
func parentOf(ns *os.File) (*os.File, error) {
	fd, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_PARENT)
	if err != nil {
		return nil, fmt.Errorf("its user namespace is not below that of dcm: %w", err)
	}
	return os.NewFile(uintptr(fd), "user namespace"), nil
}
