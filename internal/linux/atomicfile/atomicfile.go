// Package atomicfile replaces files atomically: a reader finds the complete old file or the complete
// new one, even after a crash or a loss of power.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Options describe the new file.
type Options struct {
	Mode    fs.FileMode          // its permissions; the umask does not apply
	SyncDir bool                 // after Write has returned, the new file survives a loss of power
	Prepare func(*os.File) error // sets owner and attributes before the file is synced
	Check   func() error         // called last; if it returns an error, the old file stays
}

// Write replaces path with a file that contains text. The directory must exist.
func Write(path string, text []byte, o Options) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, prefix(path)+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already if the rename failed
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Chmod(o.Mode); err != nil {
		return err
	}
	if o.Prepare != nil {
		if err := o.Prepare(f); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if o.Check != nil {
		if err := o.Check(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if !o.SyncDir {
		return nil
	}
	if err := SyncDir(dir); err != nil {
		return fmt.Errorf("%s is written but may not survive a loss of power: %w", path, err)
	}
	return nil
}

// prefix returns the beginning of the names of temporary files for path. The leading dot hides them
// from programs that read the directory meanwhile, such as systemd and container engines.
func prefix(path string) string { return "." + filepath.Base(path) + ".dcm-" }

// Sweep removes temporary files for path that killed writers left. It must not be called while
// another process writes the file.
func Sweep(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix(path)) {
			continue
		}
		if left := os.Remove(filepath.Join(filepath.Dir(path), e.Name())); left != nil {
			err = errors.Join(err, left)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot remove temporary files of %s: %w", path, err)
	}
	return nil
}

// SyncDir makes renames and removals in a directory survive a loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
