// Package statefile keeps state in JSON documents with a version, one in each file. A file
// has one writer and is readable by everyone.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/atomicfile"
)

// File is a file that contains one T.
type File[T any] struct {
	Path string

	// Version is the only one that Read accepts. Field returns the field of T that holds it;
	// nil: the document has no version.
	Version int
	Field   func(*T) *int

	Durable bool // what Write has written survives a loss of power
}

// InvalidError is returned if there is a file, and it is not a document that this version of dcm has
// written: it is truncated, of another version, of another user, or not a regular file. The next Write
// replaces it.
type InvalidError struct {
	Path   string
	Reason string // "version not supported (found 1, want 2)"
}

func (e *InvalidError) Error() string { return "state file " + e.Path + ": " + e.Reason }

// MoveAside renames the file, and returns its new name.
func (e *InvalidError) MoveAside() (string, error) {
	to := aside(e.Path, "invalid")
	return to, os.Rename(e.Path, to)
}

// Read returns the document, nil if there is no file. The error is an [InvalidError] if the file is not such
// a document.
func (f File[T]) Read() (*T, error) {
	text, err := f.text()
	if err != nil || text == nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, f.invalid("not valid: %v", err)
	}
	if f.Field != nil && *f.Field(v) != f.Version {
		return nil, f.invalid("version not supported (found %d, want %d)", *f.Field(v), f.Version)
	}
	return v, nil
}

// Valid is Read for a document that its writer writes again if it is missing. An invalid document
// counts as a missing one.
func (f File[T]) Valid() (*T, error) {
	v, err := f.Read()
	if _, ok := errors.AsType[*InvalidError](err); ok {
		return nil, nil
	}
	return v, err
}

// largest is the maximum size of a document in bytes, a hundred times that of the largest one.
const largest = 64 << 20

// text returns the content of the file, nil if there is none. It does not open what may block or have
// side effects, such as a FIFO.
func (f File[T]) text() ([]byte, error) {
	file, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, unix.ELOOP):
		return nil, f.invalid("a symbolic link (want a regular file)")
	case errors.Is(err, unix.ENXIO):
		return nil, f.invalid("a socket or device (want a regular file)")
	case err != nil:
		return nil, fmt.Errorf("cannot read the state file: %w", err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, fmt.Errorf("cannot read the state file %s: %w", f.Path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, f.invalid("a directory (want a regular file)")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, f.invalid("not a regular file")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return nil, f.invalid("owned by another user (found uid %d, want 0)", st.Uid)
	case st.Size > largest:
		return nil, f.invalid("too large (found %d bytes, want at most %d)", st.Size, largest)
	}
	text, err := io.ReadAll(io.LimitReader(file, largest))
	if err != nil {
		return nil, fmt.Errorf("cannot read the state file: %w", err)
	}
	return append([]byte{}, text...), nil
}

func (f File[T]) invalid(format string, args ...any) error {
	return &InvalidError{f.Path, fmt.Sprintf(format, args...)}
}

// Write replaces the file, or what is in its place. It sets the version of the document.
func (f File[T]) Write(v T) error {
	if f.Field != nil {
		*f.Field(&v) = f.Version
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = f.replace(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the state file %s: %w", f.Path, err)
	}
	return nil
}

// replace writes the file. rename(2) does not replace a directory, so it moves a directory aside.
func (f File[T]) replace(text []byte) error {
	options := atomicfile.Options{Mode: 0o644, SyncDir: f.Durable}
	err := atomicfile.Write(f.Path, text, options)
	if st, failed := os.Lstat(f.Path); err == nil || failed != nil || !st.IsDir() {
		return err
	}
	if moved := os.Rename(f.Path, aside(f.Path, "directory")); moved != nil {
		return errors.Join(err, moved)
	}
	return atomicfile.Write(f.Path, text, options)
}

// aside returns a free name for what is in the place of a file.
func aside(path, kind string) string {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%s-%d", path, kind, i)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
}

// Replace is Write for a document about the present. If it fails, it removes the file, since
// a reader would take the old document for the present one.
func (f File[T]) Replace(v T) error {
	err := f.Write(v)
	if err == nil {
		return nil
	}
	return errors.Join(err, f.Remove())
}

// Remove removes the file if there is one. On a read-only file system a file that does not
// exist is no error, although unlink(2) fails with EROFS. It moves a directory aside.
func (f File[T]) Remove() error {
	st, err := os.Lstat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && st.IsDir() {
		err = os.Rename(f.Path, aside(f.Path, "directory"))
	} else {
		err = os.Remove(f.Path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the state file: %w", err)
	}
	return nil
}
