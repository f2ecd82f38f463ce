package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// prefix begins the names of the tests' directories and cgroups. The process that creates one holds a lock
// on it until it exits, so a later process recognizes those of killed processes.
const prefix = "dcm-test-"

// Large is the directory for whole test runs. Its files survive a reboot, so that a later run
// removes them. It is not /tmp, which dcm-smi hides from the library.
const Large = "/var/tmp"

// Scratch makes a temporary directory for one process and its children. If release is not
// called, the next [Sweep] removes it.
func Scratch(in string) (dir string, release func() error, err error) {
	done, err := making()
	if err != nil {
		return "", nil, fmt.Errorf("cannot make a directory for the tests: %w", err)
	}
	defer done()
	dir, err = os.MkdirTemp(in, prefix)
	if err != nil {
		return "", nil, err
	}
	held, ok, err := hold(dir)
	if err != nil || !ok {
		return "", nil, fmt.Errorf("cannot lock %s: %w", dir, err)
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), held.Close()) }, nil
}

// Sweep kills the containers of test processes that have ended. It removes their directories
// and cgroups and returns the names.
func Sweep(directory string) ([]string, error) {
	done, err := making()
	if err != nil {
		return nil, fmt.Errorf("cannot list the files of earlier tests: %w", err)
	}
	defer done()
	root, err := unifiedCgroup()
	if err != nil {
		return nil, err
	}
	swept, err := sweep(root, func(dir string) error { return cgroup{dir: dir}.end() })
	files, more := sweep(directory, os.RemoveAll)
	return append(swept, files...), errors.Join(err, more)
}

// sweep removes directories without a lock.
func sweep(in string, remove func(string) error) (swept []string, err error) {
	entries, err := os.ReadDir(in)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		dir := filepath.Join(in, e.Name())
		held, ok, failed := hold(dir)
		if ok {
			failed = errors.Join(remove(dir), held.Close())
			swept = append(swept, dir)
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("cannot remove %s: %w", dir, failed))
		}
	}
	return swept, err
}

// hold locks a directory until the file is closed. ok is false if another process holds the
// lock.
func hold(dir string) (f *os.File, ok bool, err error) {
	f, err = os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, false, f.Close()
	case err != nil:
		return nil, false, errors.Join(err, f.Close())
	}
	return f, true, nil
}

// making is locked by a process that makes a directory, until the directory is locked, and
// during a sweep.
func making() (done func() error, err error) {
	if err := os.MkdirAll(CacheDir(), 0o755); err != nil {
		return nil, err
	}
	return Lock(filepath.Join(CacheDir(), "making.lock"))
}

// end kills the processes in the cgroup, waits until it is empty, and removes it.
func (c cgroup) end() error {
	if err := c.kill(); err != nil {
		return err
	}
	events, err := os.Open(filepath.Join(c.dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		text := make([]byte, 256)
		n, err := events.ReadAt(text, 0)
		if n == 0 {
			return err
		}
		if strings.Contains(string(text[:n]), "populated 0") {
			return c.remove()
		}
		// The kernel reports a change of the file by POLLPRI.
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, 1000); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return errors.New("its processes did not exit")
}
