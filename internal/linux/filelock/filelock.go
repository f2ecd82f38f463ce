// Package filelock locks files for one process at a time. The kernel releases the lock when the
// process ends, even if it is killed. The package uses open file description locks (F_OFD_SETLK in
// fcntl(2)), so two callers in one process also exclude each other.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is returned if another process holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// TryLock locks the file, which it creates if needed, until release is called. It returns
// [ErrLocked] if the lock is held.
func TryLock(path string) (release func(), err error) {
	return lock(path, unix.F_OFD_SETLK, unix.F_WRLCK)
}

// Lock is like TryLock, but waits until the lock is free.
func Lock(path string) (release func(), err error) {
	return lock(path, unix.F_OFD_SETLKW, unix.F_WRLCK)
}

// LockShared waits until no caller of [Lock] or [TryLock] holds the lock, and excludes them. Other callers of
// LockShared can hold the lock, too.
func LockShared(path string) (release func(), err error) {
	return lock(path, unix.F_OFD_SETLKW, unix.F_RDLCK)
}

func lock(path string, how int, kind int16) (release func(), err error) {
	// Only root may open the file, since every process that can open it can lock it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock a file: %w", err)
	}
	for {
		switch err := unix.FcntlFlock(f.Fd(), how, whole(kind)); {
		case err == nil:
			return func() { f.Close() }, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			f.Close()
			return nil, ErrLocked
		default:
			f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
	}
}

// Held reports whether a process holds the lock. It does not take the lock.
func Held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot query a lock: %w", err)
	}
	defer f.Close()
	lock := whole(unix.F_WRLCK)
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, lock); err != nil {
		return false, fmt.Errorf("cannot query the lock %s: %w", path, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// whole is a lock of a kind on the whole file.
func whole(kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart}
}
