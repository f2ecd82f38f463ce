package runstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DiscoveredFile is the daemon's file of services that are clients without being
// listed; the generator reads it.
const DiscoveredFile = "discovered.json"

// Discovered are services that were found using a GPU and are clients until the
// boot ends.
type Discovered struct {
	Version int      `json:"version"`
	Units   []string `json:"units"`
}

// ReadDiscovered returns the services in the runtime directory's file; none if
// there is no file.
func ReadDiscovered(dir string) ([]string, error) {
	d, err := read(filepath.Join(dir, DiscoveredFile), func(d *Discovered) int { return d.Version })
	if d == nil {
		return nil, err
	}
	return d.Units, nil
}

// WriteDiscovered replaces the file; without services there is none.
func WriteDiscovered(dir string, units []string) error {
	path := filepath.Join(dir, DiscoveredFile)
	if len(units) > 0 {
		return Write(path, Discovered{Version, units})
	}
	// Asked first: where nothing may be removed, that there is nothing is no reason
	// to fail (unlink(2) on a read-only file system says EROFS, not ENOENT).
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot forget the discovered clients: %w", err)
	}
	return nil
}
