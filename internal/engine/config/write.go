package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/atomicfile"
	"dcm/internal/sanitize"
)

// admin is the administrator's file as it was read, to be replaced by another text.
type admin struct {
	path string
	text string
	info fs.FileInfo // nil: there was none
}

// open reads the administrator's file, or what it would be made from.
func (p Paths) open() (admin, error) {
	r := p.newReader()
	if _, found := r.find(sanitize.Named(p.Admin)); len(r.problems) == 0 && !found {
		text, err := os.ReadFile(p.Template)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return admin{}, err
		}
		return admin{path: p.Admin, text: string(text)}, nil
	}
	// A link is followed here, so that it stays and leads to the new text.
	path, err := filepath.EvalSymlinks(p.Admin)
	if err != nil {
		path = p.Admin // which is told of below
	}
	info, err := os.Lstat(path)
	text, ok := r.text(sanitize.Named(p.Admin))
	if !ok || len(r.problems) > 0 {
		return admin{}, &Errors{r.problems}
	}
	return admin{path: path, text: text, info: info}, err
}

// replace writes another text, unless somebody else did so since the file was read.
func (a admin) replace(text string) error {
	if text == a.text && a.info != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(a.path), 0o755); err != nil {
		return err
	}
	return replace(a.path, text, a.info)
}

// replace puts a file with the text in the place of path, with the owner, mode and
// attributes of the old file; was is nil if there was none. Only root may be able to write
// in the directory, see [reader.reached]. The caller must be the only writer of path, see [Paths.locked].
func replace(path, text string, was fs.FileInfo) error {
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
		return fmt.Errorf("somebody else has just changed %s: try again", path)
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
