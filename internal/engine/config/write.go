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

// partial is how the names of unfinished files begin: hidden, and so no drop-ins.
func partial(path string) string { return "." + filepath.Base(path) + ".dcm-" }

// replace puts a file with the text in the place of path, at once or not at all, with
// the owner, mode and attributes of the one that was there; was is nil if there was
// none. Nobody else may be able to write in the directory, see [reader.reached].
func replace(path, text string, was fs.FileInfo) (err error) {
	dir := filepath.Dir(path)
	sweep(dir, partial(path))
	f, err := os.CreateTemp(dir, partial(path))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := like(f, path, was); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unchanged(path, was); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(dir))
}

// sweep removes what a writer has left that was killed.
func sweep(dir, begin string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), begin) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // it does no harm if it stays
		}
	}
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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// like gives a new file what the old one had beside its text.
func like(f *os.File, path string, was fs.FileInfo) error {
	if was == nil {
		return f.Chmod(0o644)
	}
	if old, ok := was.Sys().(*syscall.Stat_t); ok {
		if err := owned(f, old); err != nil {
			return fmt.Errorf("cannot keep its owner, user %d and group %d: %w", old.Uid, old.Gid, err)
		}
	}
	if err := f.Chmod(was.Mode().Perm()); err != nil {
		return err
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
