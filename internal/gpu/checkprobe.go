package gpu

import (
	"slices"

	"dcm/internal/gpu/partition"
)

// AttachedElsewhere reports whether a process uses other GPUs of the driver, and not GPU a, through the
// shared node. Only then a switch of GPU a shows the driver's [BusyCheck].
func AttachedElsewhere(a partition.Address, devices []Device, holders []Holder) bool {
	i := slices.IndexFunc(devices, func(d Device) bool { return d.Address == a })
	return i >= 0 && slices.ContainsFunc(holders, func(h Holder) bool {
		return slices.Contains(h.Devices, devices[i].SharedNode) && len(h.Attached) > 0 && !slices.Contains(h.Attached, a)
	})
}

// ProbeFor chooses the GPU to which a process is attached while GPU a is switched, so that the switch shows
// the driver's [BusyCheck]. needed is false if it shows it without that process, or if GPU a is the only
// GPU of the driver. ok is false if no other GPU is idle.
func ProbeFor(a partition.Address, devices []Device, holders []Holder) (other Device, needed, ok bool) {
	i := slices.IndexFunc(devices, func(own Device) bool { return own.Address == a })
	if i < 0 {
		return Device{}, false, false
	}
	for _, d := range devices {
		if d.Vendor != devices[i].Vendor || d.Address == a || d.SkipReason != "" {
			continue
		}
		needed = true
		idle := !slices.ContainsFunc(holders, func(h Holder) bool { return h.Uses(d) })
		if !ok && idle && d.SharedNode != "" && len(d.Parts) > 0 {
			other, ok = d, true
		}
	}
	return other, needed && !AttachedElsewhere(a, devices, holders), ok
}
