package apply

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another run is under way.
var ErrLocked = errors.New("another run is under way")

// Lock makes this process the one that changes GPUs until release is called or
// the process ends, however it ends: the kernel frees the lock. [ErrLocked] if
// another process is.
func Lock(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot take the lock of a run: %w", err)
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, whole()); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("cannot take the lock of a run, %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// Await is Lock that waits for a process which has the lock for a moment.
func Await(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot wait for a lock: %w", err)
	}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, whole())
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("cannot wait for the lock %s: %w", path, err)
		default:
			return func() { f.Close() }, nil
		}
	}
}

// UnderWay reports whether a process holds the lock of a run. It asks without
// taking the lock, so it never gets in the way of a run that begins.
func UnderWay(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot look whether a run is under way: %w", err)
	}
	defer f.Close()
	lock := whole()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, lock); err != nil {
		return false, fmt.Errorf("cannot look whether a run is under way, %s: %w", path, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// whole is an exclusive lock on the whole file.
func whole() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
}
