package runstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// Withheld are the clients with require = true that do not start after a change of single GPUs, since
// a GPU of theirs did not get the profile. Each has a file with its name, which is a start assertion in
// its drop-in. The file has the addresses of these GPUs, one a line. The daemon and the run that it
// requests write the directory, one after the other; after a kill of the daemon, the next one reads it while the
// run of the first releases clients.
type Withheld struct{ Dir string }

// WithheldIn returns the withheld clients of a runtime directory.
func WithheldIn(dir string) Withheld { return Withheld{filepath.Join(dir, unitname.WithheldDir)} }

// Read returns the GPUs for which clients are withheld, by client. A client whose file was not written
// completely has none.
func (w Withheld) Read() (map[string][]partition.Address, error) {
	out := make(map[string][]partition.Address)
	entries, err := os.ReadDir(w.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	for _, e := range entries {
		text, bad := os.ReadFile(filepath.Join(w.Dir, e.Name()))
		if errors.Is(bad, fs.ErrNotExist) {
			continue // released meanwhile
		}
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		out[e.Name()] = nil
		for _, a := range strings.Fields(string(text)) {
			out[e.Name()] = append(out[e.Name()], partition.Address(a))
		}
	}
	if err != nil {
		return out, fmt.Errorf("cannot read which clients are withheld: %w", err)
	}
	return out, nil
}

// Add withholds clients for GPUs, in addition to those for which they are already.
func (w Withheld) Add(clients map[string][]partition.Address) error {
	before, err := w.Read()
	if err != nil || len(clients) == 0 {
		return err
	}
	if err := os.MkdirAll(w.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot withhold clients: %w", err)
	}
	for unit, gpus := range clients {
		if err := w.write(unit, slices.Concat(before[unit], gpus)); err != nil {
			return err
		}
	}
	return nil
}

func (w Withheld) write(unit string, gpus []partition.Address) error {
	var text strings.Builder
	for _, a := range slices.Compact(slices.Sorted(slices.Values(gpus))) {
		fmt.Fprintln(&text, a)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, unit), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("cannot withhold %s: %w", unit, err)
	}
	return nil
}

// Keep releases the clients from GPUs for which keep returns false. A client without a GPU left can
// start.
func (w Withheld) Keep(keep func(unit string, gpu partition.Address) bool) error {
	all, err := w.Read()
	for unit, gpus := range all {
		left := slices.DeleteFunc(slices.Clone(gpus), func(a partition.Address) bool { return !keep(unit, a) })
		switch {
		case len(left) == len(gpus): // also a client without a GPU, which only Clear releases
		case len(left) == 0:
			err = errors.Join(err, w.release(unit))
		default:
			err = errors.Join(err, w.write(unit, left))
		}
	}
	return err
}

// Clear releases all clients. It keeps the directory, so that it does not fail if one is withheld meanwhile.
func (w Withheld) Clear() error {
	all, err := w.Read()
	for unit := range all {
		err = errors.Join(err, w.release(unit))
	}
	return err
}

func (w Withheld) release(unit string) error {
	if err := os.Remove(filepath.Join(w.Dir, unit)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot release %s: %w", unit, err)
	}
	return nil
}
