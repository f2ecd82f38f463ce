package runstate

import (
	"slices"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
)

// KnownFile is the name of the daemon's file below /var/lib/dcm with the GPUs of the last successful
// apply. After a boot, only this file shows which GPUs are missing.
const KnownFile = "gpus.json"

// Known are the GPUs of the last successful apply.
type Known struct {
	Version int                  `json:"version"`
	GPUs    []string             `json:"gpus"`              // addresses of the managed GPUs, in PCI order
	Details map[string]KnownGPU  `json:"details,omitempty"` // by address
	Missing map[string]time.Time `json:"missing,omitempty"` // when a GPU that is missing was first noticed to be, by address
}

// KnownGPU is what is known of a GPU that may be missing.
type KnownGPU struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
}

// KnownIn returns the file with that path.
func KnownIn(path string) statefile.File[Known] {
	return statefile.File[Known]{Path: path, Version: Version, Field: func(k *Known) *int { return &k.Version }}
}

// ReadKnown returns the content of the file, or none if there is no file.
func ReadKnown(path string) (Known, error) {
	k, err := KnownIn(path).Valid()
	if k == nil {
		return Known{}, err
	}
	return *k, nil
}

// MissingGPUs returns the known GPUs that are not there, if fewer than count are; 0: fewer than the known
// ones.
func MissingGPUs(count int, known, there []string) []string {
	if count == 0 {
		count = len(known)
	}
	if len(there) >= count {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(known), func(address string) bool { return slices.Contains(there, address) })
}

// VendorOf returns the vendor of a missing GPU, "" if it is unknown.
func (k Known) VendorOf(address string) string { return k.Details[address].Vendor }

// Absent returns the missing ones of the known GPUs. present are those that exist. count is the number
// of GPUs that are expected; 0: the known ones.
func (k Known) Absent(count int, present []partition.GPU) []partition.Absent {
	var there []string
	for _, g := range present {
		there = append(there, string(g.Address))
	}
	var out []partition.Absent
	for _, address := range MissingGPUs(count, k.GPUs, there) {
		if v, ok := partition.VendorNamed(k.VendorOf(address)); ok {
			out = append(out, partition.Absent{Vendor: v, Address: partition.Address(address)})
		}
	}
	return out
}
