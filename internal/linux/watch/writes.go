package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// writes tells of write(2) calls to files, also to those of sysfs: inotify(7)
// sees there what programs do, and not what the kernel does by itself. It sees
// only the instance of sysfs that the program writes through.
type writes struct {
	mu    sync.Mutex
	file  *os.File     // nil until open has succeeded
	armed map[int]bool // watch descriptors
	over  bool
}

// open acquires the inotify instance. Before that nothing is watched.
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

// close closes the instance, if there is one, when its watches are put away.
func (w *writes) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		letGo(w.file)
	}
}

// arm watches exactly these files from now on. One that is watched already stays
// so; one that was removed and made again is another one. A file that is not
// there is not watched.
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
			if !now[wd] { // fails if the kernel has dropped it with its file
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

// read calls changed after writes. It returns when the file is closed, or cannot
// be read.
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

// written tells whether a file was written, or the queue has overflowed. The rest
// says that a watch was removed, which the removal of a file does too.
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
