// Package atomicfile replaces files. A reader finds the old file or the new one, also after
// a crash or a loss of power, and never a part of either.
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
	SyncDir bool                 // the replacement survives a loss of power once Write has returned
	Prepare func(*os.File) error // sets owner and attributes before the file is synced
	Check   func() error         // an error keeps the old file; called last
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

// prefix is how the names of temporary files for path begin. They are hidden: directories
// of drop-ins, CDI specifications and metrics are read while a file is written.
func prefix(path string) string { return "." + filepath.Base(path) + ".dcm-" }

// Sweep removes the temporary files of writers of path that were killed. Only the single
// writer may call it.
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
