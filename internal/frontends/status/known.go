package status

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// Presence are the addresses of the GPUs that an account was the first to miss, or to have again.
type Presence struct{ Lost, Back []string }

// Remember writes the GPUs of an account to the file if the profile is on all expected GPUs. If GPUs are
// missing, it writes when that was noticed. It does not write what the file has already.
func Remember(path string, a Account) (Presence, error) {
	if a.Running() || a.hidden(partGPUs) {
		return Presence{}, nil
	}
	was, err := runstate.ReadKnown(path)
	now := runstate.Known{GPUs: was.GPUs, Details: was.Details, Missing: missingSince(a, was)}
	if a.Profile.Applied != "" && a.Health.InSync {
		now = knownGPUs(a)
	}
	now.Version = was.Version
	if err == nil && slices.Equal(was.GPUs, now.GPUs) && reflect.DeepEqual(was.Details, now.Details) && maps.EqualFunc(was.Missing, now.Missing, time.Time.Equal) {
		return Presence{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Presence{}, fmt.Errorf("cannot write the state file: %w", err)
	}
	return presence(a, was, now), runstate.KnownIn(path).Write(now)
}

// missingSince returns when each missing GPU was first noticed to be missing.
func missingSince(a Account, was runstate.Known) map[string]time.Time {
	out := make(map[string]time.Time)
	for _, address := range a.Expected.Missing {
		since, noticed := was.Missing[address]
		if !noticed {
			since = a.Taken
		}
		out[address] = since
	}
	return out
}

func presence(a Account, was, now runstate.Known) Presence {
	var p Presence
	for _, address := range slices.Sorted(maps.Keys(now.Missing)) {
		if _, noticed := was.Missing[address]; !noticed {
			p.Lost = append(p.Lost, address)
		}
	}
	for _, g := range a.GPUs {
		if _, noticed := was.Missing[g.Address]; noticed {
			p.Back = append(p.Back, g.Address)
		}
	}
	return p
}

func knownGPUs(a Account) runstate.Known {
	k := runstate.Known{GPUs: []string{}, Details: make(map[string]runstate.KnownGPU)}
	for _, g := range a.GPUs {
		if g.Managed() {
			k.GPUs = append(k.GPUs, g.Address)
			k.Details[g.Address] = runstate.KnownGPU{Vendor: g.Vendor, Model: g.Model}
		}
	}
	return k
}

// addLost records what is known of the missing GPUs, and numbers all GPUs so that each keeps its number.
func addLost(a *Account, known runstate.Known) {
	if len(a.Expected.Missing) == 0 {
		return
	}
	vendors := make(map[partition.Address]string)
	for _, g := range a.GPUs {
		if g.Managed() {
			vendors[partition.Address(g.Address)] = g.Vendor
		}
	}
	for _, address := range a.Expected.Missing {
		vendor := known.VendorOf(address)
		if vendor != "" {
			vendors[partition.Address(address)] = vendor
		}
		a.Expected.Lost = append(a.Expected.Lost, Lost{Index: -1, Address: address, Vendor: vendor, Model: known.Details[address].Model, Since: known.Missing[address]})
	}
	indices := partition.Indices(vendors)
	for i := range a.GPUs {
		if n, ok := indices[partition.Address(a.GPUs[i].Address)]; ok {
			a.GPUs[i].Index = n
		}
	}
	for i := range a.Expected.Lost {
		if n, ok := indices[partition.Address(a.Expected.Lost[i].Address)]; ok {
			a.Expected.Lost[i].Index = n
		}
	}
}
