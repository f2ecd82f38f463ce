package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// writes reports write(2) calls to files, including files of sysfs. In sysfs, inotify(7) reports
// writes of programs that use the same mount, but no changes that the kernel makes.
type writes struct {
	mu    sync.Mutex
	file  *os.File     // nil before open
	armed map[int]bool // watch descriptors
	over  bool
}

// open creates the inotify instance.
func (w *writes) open() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("cannot watch files for writes: %w", limited(os.NewSyscallError("inotify_init1", err)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		unix.Close(fd)
		return os.ErrClosed
	}
	w.file = os.NewFile(uintptr(fd), "inotify")
	return nil
}

// close closes the instance, if there is one, after its watches are freed.
func (w *writes) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		letGo(w.file)
	}
}

// arm watches exactly these files. It keeps existing watches, adds one for a file that was removed and
// created again, and skips files that do not exist.
func (w *writes) arm(paths []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.file == nil {
		return nil
	}
	return w.rearm(paths)
}

func (w *writes) rearm(paths []string) error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	now := make(map[int]bool, len(paths))
	var errs []error
	err = conn.Control(func(fd uintptr) {
		for _, path := range paths {
			switch wd, err := unix.InotifyAddWatch(int(fd), path, unix.IN_MODIFY); {
			case err == nil:
				now[wd] = true
			case !errors.Is(err, unix.ENOENT):
				errs = append(errs, fmt.Errorf("cannot watch %s for writes: %w", path, err))
			}
		}
		for wd := range w.armed {
			if !now[wd] { // the call fails if the file was removed
				_, _ = unix.InotifyRmWatch(int(fd), uint32(wd))
			}
		}
	})
	w.armed = now
	return errors.Join(append(errs, err)...)
}

// end removes all watches.
func (w *writes) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.file != nil {
		_ = w.rearm(nil)
	}
}

// read calls changed after writes. It returns when the instance is closed or cannot be read.
func (w *writes) read(changed func()) error {
	buf := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := w.file.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read which files were written: %w", err)
		}
		if written(buf[:n]) {
			changed()
		}
	}
}

// written reports whether a file was written, or the queue has overflowed. It ignores IN_IGNORED,
// which follows the removal of a watch or a file.
func written(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		if binary.NativeEndian.Uint32(events[4:])&unix.IN_IGNORED == 0 {
			return true
		}
		length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(length, len(events)):]
	}
	return false
}
