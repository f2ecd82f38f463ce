package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// File is the file's name. The collector reads every *.prom of its directory.
const File = "dcm.prom"

// Usual is the collector's directory on Debian (--collector.textfile.directory in
// the defaults of prometheus-node-exporter).
const Usual = "/var/lib/prometheus/node-exporter"

// Outlet is where the metrics go. The file is in a directory of dcm's own. The
// collector's directory may be below somebody else's: Debian gives
// /var/lib/prometheus to the user prometheus, who can put anything in its place at
// any moment. So there is only a symbolic link there, and nothing in there is ever
// opened, written to or given a mode.
type Outlet struct {
	Own       string // made if it is not there; its parents are root's
	Collector string // "": no metrics
}

// Write replaces the file atomically and sees to it that the link is there.
func (o Outlet) Write(a status.Account, alive time.Time) error {
	if err := os.Mkdir(o.Own, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	file := filepath.Join(o.Own, File)
	if err := renameio.WriteFile(file, Render(a, alive), 0o644, renameio.WithTempDir(o.Own)); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	if err := within(o.Collector, func(dir int) error { return link(dir, file) }); err != nil {
		return fmt.Errorf("cannot show the metrics in %s: %w", o.Collector, err)
	}
	return nil
}

// Remove takes link and file away, so that no monitoring sees what was true once.
func (o Outlet) Remove() error {
	err := o.Unlink()
	if file := os.Remove(filepath.Join(o.Own, File)); file != nil && !errors.Is(file, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("cannot remove the metrics: %w", file))
	}
	return err
}

// Unlink takes the link alone away.
func (o Outlet) Unlink() error {
	err := within(o.Collector, func(dir int) error { return unix.Unlinkat(dir, File, 0) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the metrics from %s: %w", o.Collector, err)
	}
	return nil
}

// temporary is the name of a link before it is renamed. There is one writer, so one fixed
// name is enough.
const temporary = ".dcm.link"

// Sweep removes what a killed writer left. Only the one writer may call it, before its
// first Write. The collector's directory is never listed: its owner chooses how many names
// it holds.
func (o Outlet) Sweep() error {
	err := within(o.Collector, func(dir int) error { return unix.Unlinkat(dir, temporary, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, runstate.Sweep(filepath.Join(o.Own, File))); err != nil {
		return fmt.Errorf("cannot remove beginnings of the metrics: %w", err)
	}
	return nil
}

// link makes the link to the file, in the place of whatever has its name.
func link(dir int, file string) error {
	buf := make([]byte, len(file)+1)
	if n, err := unix.Readlinkat(dir, File, buf); err == nil && string(buf[:n]) == file {
		return nil
	}
	if err := unix.Unlinkat(dir, temporary, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Symlinkat(file, dir, temporary); err != nil {
		return err
	}
	if err := unix.Renameat(dir, temporary, dir, File); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, temporary, 0))
	}
	return nil
}

// within calls f with the directory, to which the path leads without a symbolic link.
// That is openat2(2) with RESOLVE_NO_SYMLINKS, step by step: systemd's
// RestrictSUIDSGID= forbids openat2 itself, whose flags a filter cannot see.
func within(path string, f func(dir int) error) error {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := unix.Open("/", flags, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(dir) }()
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		next, err := unix.Openat(dir, name, flags, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", name, because(dir, name, err))
		}
		unix.Close(dir)
		dir = next
	}
	return f(dir)
}

var errLink = errors.New("a symbolic link, which is not followed here: whoever owns it could lead dcm anywhere")

func because(dir int, name string, err error) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errLink
	}
	return err
}
