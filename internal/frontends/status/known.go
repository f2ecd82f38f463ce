package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"dcm/internal/linux/atomicfile"
)

// KnownFile is the daemon's file of the GPUs of the last success, below
// /var/lib/dcm: what is missing at the next boot cannot be told otherwise.
const KnownFile = "gpus.json"

type known struct {
	Version int          `json:"version"`
	GPUs    List[string] `json:"gpus"` // the addresses of those managed, in PCI order
}

// ReadKnown returns the addresses in the file; none if there is no file.
func ReadKnown(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read how many GPUs there were: %w", err)
	}
	var k known
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("cannot read how many GPUs there were: %s: %w", path, err)
	}
	if k.Version != Version {
		return nil, fmt.Errorf("cannot read how many GPUs there were: %s: its version is %d, this dcm reads %d", path, k.Version, Version)
	}
	return k.GPUs, nil
}

// Remember writes the GPUs of an account down if it is that of a success, and if
// the file does not say so already. Fewer than there should be are no success.
func Remember(path string, a Account) error {
	if a.Profile.Applied == "" || !a.Health.InSync || a.running() {
		return nil
	}
	var now List[string]
	for _, g := range a.GPUs {
		if g.Managed() {
			now = append(now, g.Address)
		}
	}
	if was, err := ReadKnown(path); err == nil && slices.Equal(was, now) {
		return nil
	}
	text, err := json.Marshal(known{Version, now})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(path, append(text, '\n'), atomicfile.Options{Mode: 0o644})
	}
	if err != nil {
		return fmt.Errorf("cannot write down how many GPUs there are: %w", err)
	}
	return nil
}
