package apply

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"dcm/internal/amdgpu"
	"dcm/internal/partition"
	"dcm/internal/report"
)

// Difference is what a profile means for the devices seen.
type Difference struct {
	Devices []amdgpu.Device
	GPUs    []partition.GPU // the partitionable ones
	Want    partition.Layout
	Steps   partition.Steps // empty: the GPUs are as the profile says
}

// Compare plans a profile for the devices seen. What it could find out is in the
// difference even when there is an error.
func Compare(devices []amdgpu.Device, profile partition.Profile) (Difference, error) {
	d := Difference{Devices: devices, GPUs: amdgpu.Partitionable(devices)}
	if len(d.GPUs) == 0 {
		return d, fmt.Errorf("none of the %d display and accelerator devices can be partitioned", len(devices))
	}
	var err error
	if d.Want, err = profile.Layout(d.GPUs); err != nil {
		return d, err
	}
	d.Steps, err = partition.Plan(d.Want, d.GPUs)
	return d, err
}

// Looker finds who uses the GPUs. [amdgpu.Node] is one.
type Looker interface {
	Usage(ctx context.Context) (amdgpu.Usage, error)
}

// Blockers looks who keeps the steps from succeeding now. With nobody to be seen it
// is an error that there was no time to look at everybody, unless the driver's own
// count has it that nobody is left.
func (d Difference) Blockers(ctx context.Context, node Looker) ([]report.Holder, error) {
	if len(d.Steps) == 0 {
		return nil, nil
	}
	u, err := node.Usage(ctx)
	if err != nil {
		return nil, err
	}
	blocking := d.blocking(u.Holders)
	if len(blocking) == 0 {
		return nil, unsure(u)
	}
	return Holders(blocking), nil
}

// Holders converts to the report's form.
func Holders(all []amdgpu.Holder) []report.Holder {
	var out []report.Holder
	for _, h := range all {
		out = append(out, report.Holder(h))
	}
	return out
}

// blocking returns the holders that keep the steps from succeeding. A reload
// needs every device closed. A compute switch is refused while a KFD process is
// attached, on older kernels to any GPU, so /dev/kfd always counts; of the
// render nodes only those of a GPU that is to be switched do.
func (d Difference) blocking(holders []amdgpu.Holder) []amdgpu.Holder {
	if d.Steps.Reloads() {
		return holders
	}
	nodes := map[string]bool{"kfd": true}
	for _, dev := range d.Devices {
		if slices.ContainsFunc(d.Steps, func(s partition.Step) bool { return s.GPU == dev.Address }) {
			for _, n := range dev.RenderNodes {
				nodes[filepath.Base(n)] = true
			}
		}
	}
	var out []amdgpu.Holder
	for _, h := range holders {
		if slices.ContainsFunc(h.Devices, func(n string) bool { return nodes[filepath.Base(n)] }) {
			out = append(out, h)
		}
	}
	return out
}
