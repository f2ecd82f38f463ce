package reboot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/procstat"
	"dcm/internal/sanitize"
)

// Host has the directory of the record, and the trees that show whether it survives a reboot.
type Host struct {
	Dir  string // of the record
	Proc string // "/proc"
	Sys  string // "/sys"
}

// witness is a file next to the record that contains the boot in which it was written. If it
// exists in another boot, files in the directory survive a reboot.
const witness = "lasts"

// Testify writes the witness if there is none.
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
		return fmt.Errorf("cannot write the file that shows whether files survive a reboot: %w", err)
	}
	return nil
}

// boot returns an id of this boot: the kernel's boot id and the start time of process 1, since a
// container may have the boot id of its machine.
func (h Host) boot() string {
	id, _ := os.ReadFile(filepath.Join(h.Proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(id)) + " " + procstat.Read(filepath.Join(h.Proc, "1"), procstat.StartTime)
}

func (h Host) outlived() bool {
	text, err := os.ReadFile(filepath.Join(h.Dir, witness))
	return err == nil && len(text) > 0 && strings.TrimSpace(string(text)) != strings.TrimSpace(h.boot())
}

// Lasting returns nil if there is evidence that the record survives a reboot, otherwise a
// [Refusal]: without the record the host would be rebooted again and again.
func (h Host) Lasting() error {
	kind, sure, err := h.filesystem(h.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("refusing to reboot: cannot determine whether %s survives a reboot: %w", h.Dir, err)
	case sure && kind == "":
		return nil
	case sure:
		return &Refusal{fmt.Sprintf("refusing to reboot: %s does not survive a reboot, since it is on %s (would risk a reboot loop)", h.Dir, kind)}
	case h.outlived():
		return nil
	}
	return &Refusal{fmt.Sprintf("refusing to reboot: cannot verify that %s survives a reboot, since it is on %s (would risk a reboot loop). hint: reboot once by hand", h.Dir, kind)}
}

// filesystem returns the kind of file system of a directory that does not survive a reboot, if
// sure, or may not, if not sure. kind is "" for one that does.
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

// overlay checks the upper layer of an overlay. That may be invisible, if it was mounted before
// the root was changed.
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

// device returns the block device of a directory if the device is memory.
func (h Host) device(dir string) (kind string, sure bool, err error) {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return "", false, err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(h.Sys, fmt.Sprintf("dev/block/%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))))
	if err != nil {
		return "", true, nil // network file systems and btrfs have no single device
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
			return name + ", whose backing file cannot be read", false, nil
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
