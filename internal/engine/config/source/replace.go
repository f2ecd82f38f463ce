package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/atomicfile"
)

// ReplaceFile atomically replaces the file at path. The new file has the owner, mode and extended
// attributes of the old one; was is nil if there is none. Only root may have write access to the
// directory, see [Reader.reached]. It returns an error if the file was changed since was was read.
func ReplaceFile(path, text string, was fs.FileInfo) error {
	_ = atomicfile.Sweep(path) // a remaining temporary file does no harm
	o := atomicfile.Options{Mode: 0o644, SyncDir: true, Check: func() error { return unchanged(path, was) }}
	if was != nil {
		o.Mode = was.Mode().Perm()
		o.Prepare = func(f *os.File) error { return like(f, path, was) }
	}
	return atomicfile.Write(path, []byte(text), o)
}

// unchanged returns an error if the file is not the one that was read.
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

// like copies owner and attributes of the old file to the new one.
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
		return nil // no privilege is needed
	}
	return f.Chown(int(old.Uid), int(old.Gid))
}

// attributes copies the extended attributes, including access control lists and SELinux's context. If
// the context must not be set, the policy's default for the directory stays.
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
