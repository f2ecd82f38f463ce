package leaseservice

import (
	"math"

	"dcm/internal/leases/lease"
	"dcm/internal/linux/cpus"
	"dcm/internal/linux/systemd"
)

// limits returns the properties of a unit with these limits.
func limits(b lease.CgroupLimits) []systemd.Property {
	var out []systemd.Property
	for _, l := range []struct {
		name  string
		value uint64
	}{
		{"MemoryMax", b.Memory}, {"MemoryHigh", b.MemoryHigh}, {"MemorySwapMax", b.Swap}, {"TasksMax", b.Tasks}, {"CPUQuotaPerSecUSec", b.CPU},
	} {
		if l.value != math.MaxUint64 {
			out = append(out, systemd.Property{Name: l.name, Value: l.value})
		}
	}
	if mask := bitmap(b.CPUs); len(mask) > 0 {
		out = append(out, systemd.Property{Name: "AllowedCPUs", Value: mask})
	}
	return out
}

// bitmap returns a list of processors, "0-3,8", in systemd's form: a bit for each, with processor 0
// in the lowest bit of the first byte. It is empty if the list is not valid.
func bitmap(list string) []byte {
	const most = 1 << 16
	numbers, _ := cpus.ParseList(list, most)
	var out []byte
	for _, n := range numbers {
		if grow := n/8 + 1 - len(out); grow > 0 {
			out = append(out, make([]byte, grow)...)
		}
		out[n/8] |= 1 << (n % 8)
	}
	return out
}
