package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Difference is a profile's plan for the observed devices.
type Difference struct {
	Devices []gpu.Device
	GPUs    []partition.GPU // the partitionable ones
	Want    partition.Layout
	Steps   partition.Steps // empty if the GPUs match the profile
}

// Compare plans a profile for the observed devices. The difference is filled as far as
// possible even if there is an error.
func Compare(devices []gpu.Device, profile partition.Profile) (Difference, error) {
	d := Difference{Devices: devices, GPUs: gpu.Partitionable(devices)}
	if len(d.GPUs) == 0 {
		return d, none(devices)
	}
	var err error
	if d.Want, err = profile.Layout(d.GPUs); err != nil {
		return d, errors.Join(err, unpartitionable(devices, profile))
	}
	d.Steps, err = partition.Plan(d.Want, d.GPUs)
	return d, err
}

// Judge returns a refusal if the planned state would take partitions away from a reservation.
// fits reports that; it may be nil.
func (d Difference) Judge(fits func(after []partition.GPU) error) error {
	if fits == nil {
		return nil
	}
	if err := fits(partition.Forecast(d.GPUs, d.Steps)); err != nil {
		hint := gpu.Hint(err)
		if hint == "" {
			hint = "reserve less, or select a profile with more partitions"
		}
		return &refusal{err: err, hint: hint}
	}
	return nil
}

// Blockers returns the processes that block the steps, of the present use. If there are none, it returns an
// error if not all processes could be inspected in time, unless the driver's own count shows
// that none is left.
func (d Difference) Blockers(u gpu.Usage) ([]runstate.Holder, error) {
	blocking := gpu.Blockers(d.Steps, d.Devices, u.Holders)
	if len(blocking) == 0 {
		return nil, unsure(d.Steps, u)
	}
	return Holders(blocking), nil
}

// Holders converts holders to the report's form.
func Holders(all []gpu.Holder) []runstate.Holder {
	var out []runstate.Holder
	for _, h := range all {
		out = append(out, runstate.Holder{PID: h.PID, Command: h.Command, Unit: h.Unit, Devices: h.Devices, Attached: append([]partition.Address{}, h.Attached...), Lessee: h.LeaseOwner, Leased: append([]string{}, h.Leased...)})
	}
	return out
}

// Refusal returns why a run would change nothing, or nil if it would begin. mayReload reports
// whether the driver may be reloaded; blocking are the processes that block the run.
func (d Difference) Refusal(mayReload bool, blocking []runstate.Holder) *runstate.Error {
	switch {
	case d.Steps.Reloads() && !mayReload:
		return &runstate.Error{
			Text: "a memory partition mode takes effect only when the driver is reloaded, and reload-driver is false",
			Hint: "set reload-driver = true in [apply], or select a profile with the memory mode the GPUs have",
		}
	case len(blocking) > 0:
		return runstate.InUse(blocking)
	case !mayReload:
		return d.modulesRefusal()
	}
	return nil
}

// InWay returns those of the reported holders that block the steps.
func (d Difference) InWay(all []runstate.Holder) []runstate.Holder {
	var out []runstate.Holder
	for _, h := range all {
		if len(gpu.Blockers(d.Steps, d.Devices, []gpu.Holder{d.holder(h)})) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// holder converts a reported holder.
func (d Difference) holder(h runstate.Holder) gpu.Holder {
	return gpu.Holder{PID: h.PID, Devices: h.Devices, Vendors: d.vendors(h), Attached: h.Attached, LeaseOwner: h.Lessee, Leased: h.Leased}
}

// vendors returns the vendors whose GPUs a process has open. A node that belongs to no GPU,
// such as a partition's card, may be of any vendor.
func (d Difference) vendors(h runstate.Holder) []partition.Vendor {
	var out []partition.Vendor
	for _, dev := range d.Devices {
		nodes := append(append([]string{"/dev/dri/" + dev.Card}, dev.RenderNodes...), dev.ExclusiveNodes...)
		if slices.ContainsFunc(h.Devices, func(open string) bool { return slices.Contains(nodes, open) }) && !slices.Contains(out, dev.Vendor) {
			out = append(out, dev.Vendor)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, g := range d.GPUs {
		out = append(out, g.Vendor)
	}
	return out
}

// unpartitionable returns why the devices that a profile names cannot be partitioned.
func unpartitionable(devices []gpu.Device, profile partition.Profile) error {
	var errs []error
	for _, dev := range devices {
		if dev.SkipReason != "" && profile.NamesGPU(dev.Address) {
			errs = append(errs, fmt.Errorf("%s is left alone: %s", dev.Address, dev.SkipReason))
		}
	}
	return errors.Join(errs...)
}

// reasons returns the distinct reasons why devices are left alone, at most three.
func reasons(devices []gpu.Device) string {
	const most = 3
	var out, seen []string
	for _, d := range devices {
		if len(out) < most && !slices.Contains(seen, d.SkipReason) {
			out, seen = append(out, fmt.Sprintf("%s is left alone: %s", d.Address, d.SkipReason)), append(seen, d.SkipReason)
		}
	}
	return strings.Join(out, "; ")
}

// none returns the error for a node without a partitionable device. If a device has no driver,
// the error has a hint.
func none(devices []gpu.Device) error {
	if len(devices) == 0 {
		return errors.New("no display or accelerator device found on the PCI bus")
	}
	err := fmt.Errorf("none of the %d display and accelerator devices can be partitioned", len(devices))
	unbound := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.SkipReason == gpu.NotBound })
	if unbound < 0 {
		return fmt.Errorf("%w: %s", err, reasons(devices))
	}
	return &refusal{err: fmt.Errorf("%w: %s has no driver", err, devices[unbound].Address),
		hint: "load the driver with modprobe; if it is loaded, the kernel log shows why it does not use the GPU"}
}
