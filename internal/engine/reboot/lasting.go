package reboot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/sanitize"
)

// Host is where the record is kept, and what tells whether it stays there.
type Host struct {
	Dir  string // of the record
	Proc string // "/proc"
	Sys  string // "/sys"
}

// witness is a file beside the record that holds the boot it was written in. One that
// is there in another boot has shown that files there outlive a reboot.
const witness = "lasts"

// Testify leaves a witness for the boots to come, if there is none.
func (h Host) Testify() error {
	f, err := os.OpenFile(filepath.Join(h.Dir, witness), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString(h.boot() + "\n")
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot leave a witness of this boot: %w", err)
	}
	return nil
}

// boot tells this boot from others: by the kernel's id, and in a container, where
// that may be the machine's, by the start of its first process.
func (h Host) boot() string {
	id, _ := os.ReadFile(filepath.Join(h.Proc, "sys/kernel/random/boot_id"))
	stat, _ := os.ReadFile(filepath.Join(h.Proc, "1/stat"))
	// proc_pid_stat(5): the 22nd field, and the second is a name in parentheses.
	since := ""
	if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 19 {
		since = f[19]
	}
	return strings.TrimSpace(string(id)) + " " + since
}

func (h Host) outlived() bool {
	text, err := os.ReadFile(filepath.Join(h.Dir, witness))
	return err == nil && len(text) > 0 && strings.TrimSpace(string(text)) != strings.TrimSpace(h.boot())
}

// Lasting returns nil if it can be shown that the record is there after a reboot,
// else a [Refusal]: a host that forgets what it was rebooted for would be rebooted
// for it without end.
func (h Host) Lasting() error {
	kind, sure, err := h.filesystem(h.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("the host is not rebooted: cannot tell whether %s outlives a reboot: %w", h.Dir, err)
	case sure && kind == "":
		return nil
	case sure:
		return &Refusal{fmt.Sprintf("the host is not rebooted: %s is on %s, which does not outlive a reboot, and so it could become a loop", h.Dir, kind)}
	case h.outlived():
		return nil
	}
	return &Refusal{fmt.Sprintf("the host is not rebooted: %s is on %s, of which nothing shows yet that it outlives a reboot, and so it could become a loop; once the host was rebooted by hand that is known", h.Dir, kind)}
}

// filesystem names what the directory is on if that does not outlive a reboot, or may
// not; sure tells which of the two.
func (h Host) filesystem(dir string) (kind string, sure bool, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "", false, err
	}
	switch uint32(s.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs", true, nil
	case unix.RAMFS_MAGIC:
		return "ramfs", true, nil
	case unix.OVERLAYFS_SUPER_MAGIC:
		return h.overlay(dir)
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, zfs, unix.NFS_SUPER_MAGIC:
		return h.device(dir)
	}
	return fmt.Sprintf("a file system of type 0x%x", uint32(s.Type)), false, nil
}

const zfs = 0x2fc12fc1

// overlay looks at the layer that is written to, as far as it can be seen: it may
// have been mounted before the root was changed.
func (h Host) overlay(dir string) (kind string, sure bool, err error) {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return "", false, err
	}
	text, err := os.ReadFile(filepath.Join(h.Proc, "self/mountinfo"))
	if err != nil {
		return "", false, err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[2] != number {
			continue
		}
		for option := range strings.SplitSeq(f[len(f)-1], ",") {
			upper, ok := strings.CutPrefix(option, "upperdir=")
			if !ok {
				continue
			}
			var u unix.Statfs_t
			if unix.Statfs(upper, &u) == nil && slices.Contains([]uint32{unix.TMPFS_MAGIC, unix.RAMFS_MAGIC}, uint32(u.Type)) {
				return "an overlay in memory (" + sanitize.Text(upper) + ")", true, nil
			}
		}
	}
	return "an overlay", false, nil
}

// device names the block device below if that is memory.
func (h Host) device(dir string) (kind string, sure bool, err error) {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return "", false, err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(h.Sys, fmt.Sprintf("dev/block/%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))))
	if err != nil {
		return "", true, nil // no one device, as of a network file system and of btrfs
	}
	return h.block(path)
}

func (h Host) block(path string) (kind string, sure bool, err error) {
	name := sanitize.Text(filepath.Base(path))
	if strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") {
		return "the memory disk " + name, true, nil
	}
	if file, err := os.ReadFile(filepath.Join(path, "loop/backing_file")); err == nil {
		if kind, sure, err := h.filesystem(filepath.Dir(strings.TrimSpace(string(file)))); err == nil && kind != "" {
			return name + " in " + kind, sure, nil
		} else if err != nil {
			return name + ", whose file cannot be seen", false, nil
		}
	}
	below, err := os.ReadDir(filepath.Join(path, "slaves"))
	if err != nil {
		return "", true, nil
	}
	for _, b := range below {
		slave, err := filepath.EvalSymlinks(filepath.Join(path, "slaves", b.Name()))
		if err != nil {
			continue
		}
		if kind, sure, _ := h.block(slave); kind != "" {
			return name + " on " + kind, sure, nil
		}
	}
	return "", true, nil
}
