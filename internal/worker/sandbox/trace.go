package sandbox

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"dcm/internal/worker/serve"
)

// Trace has the calls that the filter refused. The calls of a nil Trace are not recorded.
type Trace struct {
	mu    sync.Mutex
	calls []serve.Refusal
}

// Refused returns the refused calls by number.
func (t *Trace) Refused() []serve.Refusal {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.calls)
	slices.SortFunc(out, func(a, b serve.Refusal) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.First, b.First))
	})
	return out
}

// notification is the kernel's struct seccomp_notif, and response its seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	address    uint64
	arguments  [6]uint64
}

type response struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// InstallTracedSeccomp is [Rights.InstallSeccomp] that also records the refused calls. The
// kernel asks a thread of this process, which refuses them. Code in this process could
// permit a call in its place, so that it is for a record of a library and not for the
// daemon. On a kernel before 5.7 it returns a nil Trace.
func (r Rights) InstallTracedSeccomp() (*Trace, error) {
	if err := r.confirm(); err != nil {
		return nil, err
	}
	listener, err := installListener(r.filter(ownPID(), unix.SECCOMP_RET_USER_NOTIF))
	if err != nil {
		return nil, install(r.filter(ownPID(), refuse))
	}
	t := &Trace{}
	go t.answer(listener)
	return t, nil
}

func installListener(code []unix.SockFilter) (int, error) {
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return -1, errno
	}
	unix.CloseOnExec(int(fd))
	return int(fd), nil
}

// answer refuses each call until the process ends.
func (t *Trace) answer(listener int) {
	runtime.LockOSThread()
	for {
		var n notification
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return // no thread has the filter any more
		}
		t.add(n)
		refused := response{id: n.id, error: -int32(unix.EPERM)}
		_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&refused)) // the thread may have ended
	}
}

func control(fd int, request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

func (t *Trace) add(n notification) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const small = 4096 // a larger one may be an address
	one := serve.Refusal{Number: n.number, Count: 1}
	if n.arguments[0] < small {
		one.First = n.arguments[0]
	}
	i := slices.IndexFunc(t.calls, func(c serve.Refusal) bool { return c.Number == one.Number && c.First == one.First })
	if i < 0 {
		t.calls = append(t.calls, one)
		return
	}
	t.calls[i].Count++
}
