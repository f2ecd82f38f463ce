package status

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"dcm/internal/linux/statefile"
)

// KnownFile is the name of the daemon's file below /var/lib/dcm with the GPUs of the last successful
// apply. After a boot, only this file shows which GPUs are missing.
const KnownFile = "gpus.json"

// Known are the GPUs of the last successful apply.
type Known struct {
	Version int                  `json:"version"`
	GPUs    List[string]         `json:"gpus"`              // addresses of the managed GPUs, in PCI order
	Details map[string]KnownGPU  `json:"details,omitempty"` // by address; none in a file of an older version
	Missing map[string]time.Time `json:"missing,omitempty"` // when a GPU that is missing was first noticed to be, by address
}

// KnownGPU is what is known of a GPU that may be missing.
type KnownGPU struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
}

func knownIn(path string) statefile.File[Known] {
	return statefile.File[Known]{Path: path, Version: Version, Field: func(k *Known) *int { return &k.Version }}
}

// ReadKnown returns the content of the file, or none if there is no file.
func ReadKnown(path string) (Known, error) {
	k, err := knownIn(path).Read()
	if k == nil {
		return Known{}, err
	}
	return *k, nil
}

// Remember writes the GPUs of an account to the file if the profile is on all expected GPUs. If GPUs are
// missing, it writes when that was noticed. It does not write what the file has already.
func Remember(path string, a Account) error {
	if a.running() {
		return nil
	}
	was, err := ReadKnown(path)
	now := Known{GPUs: was.GPUs, Details: was.Details}
	switch {
	case a.Profile.Applied != "" && a.Health.InSync:
		now = knownGPUs(a)
	case len(a.Expected.Missing) > 0 && !a.hidden(partGPUs):
		now.Missing = make(map[string]time.Time)
		for _, address := range a.Expected.Missing {
			since, noticed := was.Missing[address]
			if !noticed {
				since = a.Taken
			}
			now.Missing[address] = since
		}
	default:
		return nil
	}
	now.Version = was.Version
	if err == nil && slices.Equal(was.GPUs, now.GPUs) && reflect.DeepEqual(was.Details, now.Details) && maps.EqualFunc(was.Missing, now.Missing, time.Time.Equal) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot write the state file: %w", err)
	}
	return knownIn(path).Write(now)
}

func knownGPUs(a Account) Known {
	k := Known{Details: make(map[string]KnownGPU)}
	for _, g := range a.GPUs {
		if g.Managed() {
			k.GPUs = append(k.GPUs, g.Address)
			k.Details[g.Address] = KnownGPU{g.Vendor, g.Model}
		}
	}
	return k
}

// addLost records what is known of the missing GPUs, and numbers the others so that each keeps its
// number: those of each vendor are counted in PCI order, with the missing ones.
func addLost(a *Account, known Known) {
	if len(a.Expected.Missing) == 0 {
		return
	}
	vendor := make(map[string]string)
	for _, g := range a.GPUs {
		if g.Managed() {
			vendor[g.Address] = g.Vendor
		}
	}
	only := slices.Compact(slices.Sorted(maps.Values(vendor)))
	for _, address := range a.Expected.Missing {
		d, detailed := known.Details[address]
		if !detailed && len(only) == 1 { // a file of an older version
			d.Vendor = only[0]
		}
		if d.Vendor != "" {
			vendor[address] = d.Vendor
		}
		a.Expected.Lost = append(a.Expected.Lost, Lost{Index: -1, Address: address, Vendor: d.Vendor, Model: d.Model, Since: known.Missing[address]})
	}
	number := make(map[string]int)
	count := make(map[string]int)
	for _, address := range slices.Sorted(maps.Keys(vendor)) {
		number[address] = count[vendor[address]]
		count[vendor[address]]++
	}
	for i := range a.GPUs {
		if n, ok := number[a.GPUs[i].Address]; ok {
			a.GPUs[i].Index = n
		}
	}
	for i := range a.Expected.Lost {
		if n, ok := number[a.Expected.Lost[i].Address]; ok {
			a.Expected.Lost[i].Index = n
		}
	}
}
