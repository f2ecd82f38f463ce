package gpu

import (
	"path/filepath"
	"slices"

	"dcm/internal/gpu/partition"
)

// mergeHolder adds a holder. One process may hold GPUs of two vendors.
func mergeHolder(all []Holder, h Holder) []Holder {
	i := slices.IndexFunc(all, func(known Holder) bool { return known.PID == h.PID })
	if i < 0 {
		return append(all, h)
	}
	all[i].Devices = append(all[i].Devices, h.Devices...)
	all[i].Vendors = append(all[i].Vendors, h.Vendors...)
	return all
}

// Blockers returns the holders that make the steps fail. For a driver reload these are all
// holders of a GPU of the driver. For other steps they have an exclusive node of a changed
// GPU open. A lease blocks every change.
func Blockers(steps partition.Steps, devices []Device, holders []Holder) []Holder {
	closed := make(map[string]bool)
	for _, d := range devices {
		if slices.ContainsFunc(steps, func(s partition.Step) bool { return s.GPU == d.Address }) {
			for _, node := range d.ExclusiveNodes {
				closed[filepath.Base(node)] = true
			}
		}
	}
	var out []Holder
	for _, h := range holders {
		reloaded := slices.ContainsFunc(steps, func(s partition.Step) bool {
			return s.Kind.Reloads() && slices.Contains(h.Vendors, s.Kind.Vendor())
		})
		if reloaded || h.LeaseOwner != "" || slices.ContainsFunc(h.Devices, func(node string) bool { return closed[filepath.Base(node)] }) {
			out = append(out, h)
		}
	}
	return out
}
