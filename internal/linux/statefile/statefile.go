// Package statefile keeps state in JSON documents with a version, one in each file. A file
// has one writer and is readable by everyone.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

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

// Read returns the document, nil if there is no file.
func (f File[T]) Read() (*T, error) {
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the state file: %w", err)
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("state file %s: not valid: %w", f.Path, err)
	}
	if f.Field != nil && *f.Field(v) != f.Version {
		return nil, fmt.Errorf("state file %s: version not supported (found %d, want %d)", f.Path, *f.Field(v), f.Version)
	}
	return v, nil
}

// Write replaces the file. It sets the version of the document.
func (f File[T]) Write(v T) error {
	if f.Field != nil {
		*f.Field(&v) = f.Version
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = atomicfile.Write(f.Path, append(text, '\n'), atomicfile.Options{Mode: 0o644, SyncDir: f.Durable})
	}
	if err != nil {
		return fmt.Errorf("cannot write the state file %s: %w", f.Path, err)
	}
	return nil
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
// exist is no error, although unlink(2) fails with EROFS.
func (f File[T]) Remove() error {
	if _, err := os.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the state file: %w", err)
	}
	return nil
}
