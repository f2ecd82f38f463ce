package devguard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The parts of bpf(2) that are used. A newer kernel takes missing fields of the argument as zero.

// Commands, and other numbers of linux/bpf.h.
const (
	cmdMapCreate  = 0
	cmdMapUpdate  = 2
	cmdMapDelete  = 3
	cmdMapNext    = 4
	cmdProgLoad   = 5
	cmdPin        = 6
	cmdGet        = 7
	cmdLinkCreate = 28
	cmdLinkDetach = 34

	mapHash       = 1
	typeDevice    = 15 // BPF_PROG_TYPE_CGROUP_DEVICE
	attachDevice  = 6  // BPF_CGROUP_DEVICE
	mostRows      = 16 << 10
	verifierWords = 64 << 10
)

type (
	createAttr struct{ kind, key, value, entries uint32 }
	entryAttr  struct {
		table, _   uint32
		key, value uint64
	}
	loadAttr struct {
		kind, count           uint32
		instructions, license uint64
		logLevel, logSize     uint32
		log                   uint64
	}
	pinAttr  struct{ path, fd uint64 }
	linkAttr struct{ program, target, attach, flags uint32 }
)

// bpf makes the system call. attr contains pointers as numbers, which the garbage collector does not
// see. So callers must keep the objects alive.
func bpf[A any](command uintptr, attr *A) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func createTable() (int, error) {
	return bpf(cmdMapCreate, &createAttr{kind: mapHash, key: uint32(unsafe.Sizeof(permission{})), value: 4, entries: mostRows})
}

func load(table int) (int, error) {
	code, words := encode(program(table)), make([]byte, verifierWords)
	license := []byte("Apache-2.0\x00")
	attr := loadAttr{
		kind: typeDevice, count: uint32(len(code) / 8),
		instructions: address(&code[0]), license: address(&license[0]),
		logLevel: 1, logSize: verifierWords, log: address(&words[0]),
	}
	fd, err := bpf(cmdProgLoad, &attr)
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	if err != nil {
		return -1, refusal(err, words)
	}
	return fd, nil
}

// refusal adds the last line of the verifier's log to the error of a load.
func refusal(err error, words []byte) error {
	said, _, _ := bytes.Cut(words, []byte{0})
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for _, l := range lines {
		if strings.Contains(l, "unknown func") || strings.Contains(l, "cannot use helper") || strings.Contains(l, "program of this type") {
			return &UnsupportedError{fmt.Errorf("device programs cannot read a cgroup's ancestors: %s", l)}
		}
	}
	if errors.Is(err, unix.ENOSYS) {
		return &UnsupportedError{err}
	}
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

func attach(program, cgroup int) (int, error) {
	return bpf(cmdLinkCreate, &linkAttr{uint32(program), uint32(cgroup), attachDevice, 0})
}

// detach stops the program immediately. Without it, the kernel stops the program some time after the
// last reference to the link is closed.
func detach(link int) error {
	_, err := bpf(cmdLinkDetach, &struct{ link uint32 }{uint32(link)})
	return err
}

func pin(fd int, path string) error {
	name := append([]byte(path), 0)
	_, err := bpf(cmdPin, &pinAttr{address(&name[0]), uint64(fd)})
	runtime.KeepAlive(name)
	return err
}

func get(path string) (int, error) {
	if _, err := os.Lstat(path); err != nil { // a container refuses each bpf(2), also for a path that does not exist
		return -1, err
	}
	name := append([]byte(path), 0)
	fd, err := bpf(cmdGet, &pinAttr{address(&name[0]), 0})
	runtime.KeepAlive(name)
	return fd, err
}

// add adds a key to the table. The value is not used.
func add(table int, p permission) error {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	var value uint32
	pinned.Pin(&p)
	pinned.Pin(&value)
	_, err := bpf(cmdMapUpdate, &entryAttr{table: uint32(table), key: address(&p), value: address(&value)})
	return err
}

// remove deletes a key from the table. It returns no error if there is no such key.
func remove(table int, p permission) error {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&p)
	_, err := bpf(cmdMapDelete, &entryAttr{table: uint32(table), key: address(&p)})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// keys reads the whole table.
func keys(table int) (map[permission]bool, error) {
	out := make(map[permission]bool)
	var last *permission
	for {
		next, attr := new(permission), entryAttr{table: uint32(table)}
		if last != nil {
			attr.key = address(last)
		}
		attr.value = address(next)
		var pinned runtime.Pinner
		pinned.Pin(next)
		if last != nil {
			pinned.Pin(last)
		}
		_, err := bpf(cmdMapNext, &attr)
		pinned.Unpin()
		if errors.Is(err, unix.ENOENT) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out[*next] = true
		last = next
	}
}
