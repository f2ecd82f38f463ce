package status

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"dcm/internal/linux/statefile"
)

// KnownFile is the name of the daemon's file below /var/lib/dcm with the GPUs of the last successful
// apply. After a boot, only this file shows which GPUs are missing.
const KnownFile = "gpus.json"

type known struct {
	Version int          `json:"version"`
	GPUs    List[string] `json:"gpus"` // addresses of the managed GPUs, in PCI order
}

func knownIn(path string) statefile.File[known] {
	return statefile.File[known]{Path: path, Version: Version, Field: func(k *known) *int { return &k.Version }}
}

// ReadKnown returns the addresses in the file, or none if there is no file.
func ReadKnown(path string) ([]string, error) {
	k, err := knownIn(path).Read()
	if k == nil {
		return nil, err
	}
	return k.GPUs, nil
}

// Remember writes the GPUs of an account to the file if the file has others. It writes nothing if the
// profile is not on all expected GPUs.
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot write the state file: %w", err)
	}
	return knownIn(path).Write(known{GPUs: now})
}
