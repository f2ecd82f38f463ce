package partition

import (
	"errors"
	"fmt"
	"slices"
)

// Plan returns the steps that bring the GPUs seen to the layout wanted: all
// memory requests, one driver reload if there is any request, then the compute
// switches, then what changes MIG geometries. There is no step for a GPU that is already right.
//
// The compute switches behind a reload are a forecast, since the driver picks a
// compute mode itself when it loads: observe and plan again after the reload.
//
// The instances behind a switch of MIG are one too, where a driver tells only then
// what a GPU offers.
//
// Every GPU that cannot have what is wanted is told, as [Unsupported].
func Plan(want Layout, have []GPU) (Steps, error) {
	gpus := byAddress(have)
	var cannot []*Unsupported
	fits := make(packCache)
	for _, g := range gpus {
		if e := check(g, want, fits); e != nil {
			cannot = mergeUnsupported(cannot, e)
		}
	}
	steps, err := memorySteps(want, gpus)
	errs := []error{err}
	for _, e := range cannot {
		e.All = e.coversAll(gpus)
		errs = append(errs, e)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		steps = append(steps, Step{Kind: ReloadDriver})
		gpus = Forecast(gpus, steps)
	}
	for _, g := range gpus {
		if w, ok := want.Shapes[g.Address]; ok && w.MIG == nil && w.Compute != g.Compute {
			steps = append(steps, Step{Kind: SwitchCompute, GPU: g.Address, From: string(g.Compute), To: string(w.Compute)})
		}
	}
	return append(steps, migSteps(want, gpus, fits)...), nil
}

// memorySteps returns one request per hive that has a GPU in another memory mode
// than wanted; a GPU in no hive is a hive of its own.
func memorySteps(want Layout, gpus []GPU) (Steps, error) {
	var steps Steps
	var errs []error
	done := make(map[uint64]bool)
	for _, g := range gpus {
		w, ok := want.Shapes[g.Address]
		if !ok || w.Memory == g.Memory || g.Hive != 0 && done[g.Hive] {
			continue
		}
		done[g.Hive] = true
		hive := []Address{g.Address}
		if g.Hive != 0 {
			hive = nil
			for _, member := range gpus {
				if member.Hive == g.Hive {
					hive = append(hive, member.Address)
				}
			}
		}
		for _, a := range hive {
			if want.Skipped[a] {
				errs = append(errs, fmt.Errorf("%s is skipped, but it is in the same XGMI hive as %s, whose memory mode is to become %s: a memory mode is of the whole hive", a, g.Address, w.Memory))
			}
		}
		steps = append(steps, Step{Kind: RequestMemory, GPU: g.Address, Hive: hive, From: string(g.Memory), To: string(w.Memory)})
	}
	return steps, errors.Join(errs...)
}

// Forecast returns what the GPUs should be seen to have after the steps. It is
// for showing a plan and for tests; a run reads back instead.
func Forecast(have []GPU, steps Steps) []GPU {
	gpus := byAddress(have)
	pending := make(map[Address]Memory)
	for _, s := range steps {
		for i := range gpus {
			g := &gpus[i]
			switch s.Kind {
			case RequestMemory:
				if slices.Contains(s.Hive, g.Address) {
					pending[g.Address] = Memory(s.To)
				}
			case ReloadDriver:
				g.applyReload(pending[g.Address])
			default:
				if s.GPU == g.Address {
					g.applyShape(g.Shape().AfterStep(s))
				}
			}
		}
	}
	return gpus
}

// become is what a step at once makes of a GPU.
func (g *GPU) applyShape(s Shape) {
	g.Compute, g.MIG, g.MIGPending = s.Compute, s.MIG, false
}

// reload is what a driver load does to a GPU with a pending memory request, or
// with none.
func (g *GPU) applyReload(pending Memory) {
	if pending != "" && pending != g.Memory {
		g.Memory = pending
		// The device's list was for the old memory mode.
		m, _ := LookupModel(g.Vendor, g.Device)
		g.AvailableCompute = m.computeFor(pending)
	}
	if c := g.Memory.AutoCompute(); c != "" {
		g.Compute = c
	}
}
