package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/atomicfile"
)

// File is the name of the metrics file. The collector reads every *.prom in its directory.
const File = "dcm.prom"

// DebianDirectory is the collector's directory on Debian (--collector.textfile.directory in
// the defaults of prometheus-node-exporter).
const DebianDirectory = "/var/lib/prometheus/node-exporter"

// Directory writes the metrics to a file in dcm's own directory. The collector's directory gets only a
// symbolic link to the file. It may be below a directory of another user, such as Debian's
// /var/lib/prometheus, and that user can replace any part of the path. So dcm never opens or writes a
// file there, and never changes a mode.
type Directory struct {
	Data      string // dcm's own directory, created if missing; root owns its parent
	Collector string // "" for no metrics
}

// Write replaces the file atomically and creates the link if it is missing.
func (o Directory) Write(a status.Account, alive time.Time, leased map[string]float64) error {
	if err := os.Mkdir(o.Data, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	file := filepath.Join(o.Data, File)
	if err := atomicfile.Write(file, Render(a, alive, leased), atomicfile.Options{Mode: 0o644}); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	if err := inDirectory(o.Collector, func(dir int) error { return link(dir, file) }); err != nil {
		return fmt.Errorf("cannot link the metrics in %s: %w", o.Collector, err)
	}
	return nil
}

// Remove removes the link and the file, so that monitoring sees no outdated values.
func (o Directory) Remove() error {
	err := o.Unlink()
	if file := os.Remove(filepath.Join(o.Data, File)); file != nil && !errors.Is(file, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("cannot remove the metrics: %w", file))
	}
	return err
}

// Unlink removes only the link.
func (o Directory) Unlink() error {
	err := inDirectory(o.Collector, func(dir int) error { return unix.Unlinkat(dir, File, 0) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the metrics from %s: %w", o.Collector, err)
	}
	return nil
}

// temporaryLink is the name of the link before it is renamed. There is one writer, so a fixed
// name is enough.
const temporaryLink = ".dcm.link"

// Sweep removes temporary files of a writer that was killed. The writer must call it before its first
// Write. Sweep does not list the collector's directory, since its owner could have put any number of
// files there.
func (o Directory) Sweep() error {
	err := inDirectory(o.Collector, func(dir int) error { return unix.Unlinkat(dir, temporaryLink, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, atomicfile.Sweep(filepath.Join(o.Data, File))); err != nil {
		return fmt.Errorf("cannot remove temporary files of the metrics: %w", err)
	}
	return nil
}

// link creates the link to the file. It replaces any other file of that name.
func link(dir int, file string) error {
	buf := make([]byte, len(file)+1)
	if n, err := unix.Readlinkat(dir, File, buf); err == nil && string(buf[:n]) == file {
		return nil
	}
	if err := unix.Unlinkat(dir, temporaryLink, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Symlinkat(file, dir, temporaryLink); err != nil {
		return err
	}
	if err := unix.Renameat(dir, temporaryLink, dir, File); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, temporaryLink, 0))
	}
	return nil
}

// inDirectory opens a directory without following symbolic links in any part of the path, and calls f
// with it. openat2(2) with RESOLVE_NO_SYMLINKS would do the same in one call. The unit's
// RestrictSUIDSGID= forbids openat2, since a seccomp filter cannot read its flags.
func inDirectory(path string, f func(dir int) error) error {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := unix.Open("/", flags, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(dir) }()
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		next, err := unix.Openat(dir, name, flags, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", name, explain(dir, name, err))
		}
		unix.Close(dir)
		dir = next
	}
	return f(dir)
}

var errLink = errors.New("is a symbolic link, which dcm does not follow, since its owner could redirect dcm to any directory")

func explain(dir int, name string, err error) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errLink
	}
	return err
}
