package source

import (
	"dcm/internal/linux/atomicfile"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReplaceFile puts a file with the text in the place of path, with the owner, mode and
// attributes of the old file; was is nil if there was none. Only root may be able to write
// in the directory, see [Reader.reached]. The caller must be the only writer of path.
func ReplaceFile(path, text string, was fs.FileInfo) error {
	_ = atomicfile.Sweep(path) // a file that stays does no harm
	o := atomicfile.Options{Mode: 0o644, SyncDir: true, Check: func() error { return unchanged(path, was) }}
	if was != nil {
		o.Mode = was.Mode().Perm()
		o.Prepare = func(f *os.File) error { return like(f, path, was) }
	}
	return atomicfile.Write(path, []byte(text), o)
}

// unchanged reports as an error that the file is not the one that was read.
func unchanged(path string, was fs.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was == nil:
		return nil
	case err != nil:
		return err
	case was == nil || !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) || was.Size() != now.Size():
		return fmt.Errorf("%s: changed by another program. hint: try again", path)
	}
	return nil
}

// like gives a new file what the old one had beside its text.
func like(f *os.File, path string, was fs.FileInfo) error {
	if old, ok := was.Sys().(*syscall.Stat_t); ok {
		if err := owned(f, old); err != nil {
			return fmt.Errorf("cannot keep its owner, user %d and group %d: %w", old.Uid, old.Gid, err)
		}
	}
	return attributes(f, path)
}

func owned(f *os.File, old *syscall.Stat_t) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if now, ok := info.Sys().(*syscall.Stat_t); ok && now.Uid == old.Uid && now.Gid == old.Gid {
		return nil // to which no privilege is needed
	}
	return f.Chown(int(old.Uid), int(old.Gid))
}

// attributes copies the extended attributes, access lists and SELinux's context among
// them. A context that may not be set is left to the policy, which gives a new file
// in this directory the usual one.
func attributes(f *os.File, path string) error {
	list := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, list)
	if err == unix.ENOTSUP {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot keep its attributes: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		if err == nil {
			err = unix.Fsetxattr(int(f.Fd()), name, value[:n], 0)
		}
		ours := strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
		if err != nil && ours {
			return fmt.Errorf("cannot keep its attribute %s: %w", name, err)
		}
	}
	return nil
}
