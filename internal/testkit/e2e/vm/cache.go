package vm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"dcm/internal/testkit/e2e"
)

// cached returns a directory of the cache. If it does not exist, fill gets an empty directory that becomes it.
// what names its content in the log and in errors.
func cached(dir, what string, log io.Writer, fill func(partial string) error) (string, error) {
	unlock, err := e2e.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	fmt.Fprintf(log, "building %s in %s\n", what, dir)
	partial := dir + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o755)); err != nil {
		return "", err
	}
	if err := fill(partial); err != nil {
		return "", errors.Join(fmt.Errorf("cannot build %s: %w", what, err), os.RemoveAll(partial))
	}
	return dir, os.Rename(partial, dir)
}
