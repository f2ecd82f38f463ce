package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Difference is what a profile means for the devices seen.
type Difference struct {
	Devices []gpu.Device
	GPUs    []partition.GPU // the partitionable ones
	Want    partition.Layout
	Steps   partition.Steps // empty: the GPUs are as the profile says
}

// Compare plans a profile for the devices seen. What it could find out is in the
// difference even when there is an error.
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

// Judge refuses what would leave somebody without what is kept for him: fits tells why
// the GPUs must not become as they would; nil: nobody minds.
func (d Difference) Judge(fits func(after []partition.GPU) error) error {
	if fits == nil {
		return nil
	}
	if err := fits(partition.Forecast(d.GPUs, d.Steps)); err != nil {
		cure := gpu.Hint(err)
		if cure == "" {
			cure = "reserve less, or select a profile with more partitions"
		}
		return &refusal{err: err, cure: cure}
	}
	return nil
}

// Looker finds who uses the GPUs. [gpu.Node] is one.
type Looker interface {
	Usage(ctx context.Context) (gpu.Usage, error)
}

// Blockers looks who keeps the steps from succeeding now. With nobody to be seen it
// is an error that there was no time to look at everybody, unless the driver's own
// count has it that nobody is left.
func (d Difference) Blockers(ctx context.Context, node Looker) ([]runstate.Holder, error) {
	if len(d.Steps) == 0 {
		return nil, nil
	}
	u, err := node.Usage(ctx)
	if err != nil {
		return nil, err
	}
	blocking := gpu.Blockers(d.Steps, d.Devices, u.Holders)
	if len(blocking) == 0 {
		return nil, unsure(d.Steps, u)
	}
	return Holders(blocking), nil
}

// Holders converts to the report's form.
func Holders(all []gpu.Holder) []runstate.Holder {
	var out []runstate.Holder
	for _, h := range all {
		out = append(out, runstate.Holder{PID: h.PID, Command: h.Command, Unit: h.Unit, Devices: h.Devices, Lessee: h.LeaseOwner})
	}
	return out
}

// Refusal is why a run would touch nothing, where the driver may be reloaded or may
// not, and these processes are in the way. nil: it would begin.
func (d Difference) Refusal(mayReload bool, blocking []runstate.Holder) *runstate.Error {
	switch {
	case d.Steps.Reloads() && !mayReload:
		return &runstate.Error{
			Text: "a memory partition mode takes effect only when the driver is reloaded, and reload-driver is false",
			Cure: "set reload-driver = true in [apply], or select a profile with the memory mode the GPUs have",
		}
	case len(blocking) > 0:
		return runstate.InUse(blocking)
	}
	return nil
}

// InWay returns those of the processes that keep the steps from succeeding, as
// somebody has told of them.
func (d Difference) InWay(all []runstate.Holder) []runstate.Holder {
	var out []runstate.Holder
	for _, h := range all {
		if len(gpu.Blockers(d.Steps, d.Devices, []gpu.Holder{{PID: h.PID, Devices: h.Devices, Vendors: d.vendors(h), LeaseOwner: h.Lessee}})) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// vendors are those whose GPUs a process has open. Of a node that is none of a GPU's
// own, a partition's card, it may be any of them.
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

// unpartitionable says of the devices that a profile names why they cannot be
// partitioned.
func unpartitionable(devices []gpu.Device, profile partition.Profile) error {
	var errs []error
	for _, dev := range devices {
		if dev.SkipReason != "" && profile.NamesGPU(dev.Address) {
			errs = append(errs, fmt.Errorf("%s is left alone: %s", dev.Address, dev.SkipReason))
		}
	}
	return errors.Join(errs...)
}

// reasons are those for which devices are left alone, each once; of many the first.
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

// none says that no device can be partitioned, and what to do if that is only because
// their driver is not there.
func none(devices []gpu.Device) error {
	err := fmt.Errorf("none of the %d display and accelerator devices can be partitioned", len(devices))
	unbound := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.SkipReason == gpu.NotBound })
	if unbound < 0 {
		return fmt.Errorf("%w: %s", err, reasons(devices))
	}
	return &refusal{err: fmt.Errorf("%w: %s has no driver", err, devices[unbound].Address),
		cure: "Load the driver with modprobe; if it is loaded, the kernel log tells why it does not drive the GPU."}
}
