package partition

import (
	"errors"
	"fmt"
	"slices"
)

// Plan returns the steps from the current state to the wanted layout. First come all memory
// requests, and one driver reload if there is a request. Then come the compute switches, the
// settings, which the driver resets before, and the MIG steps. A GPU that already has its shape has no step.
//
// The compute switches after a reload are a forecast, since the driver selects a compute
// mode when it loads. The caller reads the state and plans again after the reload. The
// instances after a switch of MIG are a forecast too, if the driver reports profiles only
// with MIG on.
//
// The error has an [Unsupported] for each different reason.
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
	steps = append(steps, settingSteps(want, byAddress(have), Forecast(have, steps))...)
	return append(steps, migSteps(want, gpus, fits)...), nil
}

// settingSteps returns the steps for each GPU that does not have its settings after the steps before.
func settingSteps(want Layout, have, then []GPU) Steps {
	var steps Steps
	for _, one := range settings() {
		for i, g := range then {
			if w := want.Shapes[g.Address]; w.MIG == nil {
				steps = append(steps, one.steps(g.Address, have[i].Settings, g.Settings, w.Settings)...)
			}
		}
	}
	return steps
}

// memorySteps returns one request for each hive with a GPU that has another memory mode than the
// wanted one. A GPU in no hive counts as a hive.
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
				errs = append(errs, fmt.Errorf("%s: cannot be skipped: its XGMI hive gets one memory mode, and %s in it gets %s", a, g.Address, w.Memory))
			}
		}
		steps = append(steps, Step{Kind: RequestMemory, GPU: g.Address, Hive: hive, From: string(g.Memory), To: string(w.Memory)})
	}
	return steps, errors.Join(errs...)
}

// Forecast returns the expected state after the steps. It is for displaying a plan and for
// tests; a run reads the state back.
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
				applyReload(g, pending[g.Address])
			default:
				if s.GPU == g.Address {
					applyShape(g, g.Shape().AfterStep(s))
				}
			}
		}
	}
	return gpus
}

// applyShape sets the state after a step that takes effect immediately.
func applyShape(g *GPU, s Shape) {
	g.Compute, g.Settings, g.MIG, g.MIGPending = s.Compute, s.Settings, s.MIG, false
}

// applyReload sets the state after a driver load. pending is the requested memory mode, ""
// for none.
func applyReload(g *GPU, pending Memory) {
	if pending != "" && pending != g.Memory {
		g.Memory = pending
		// The device's list is for the old memory mode.
		g.AvailableCompute = computeWith(*g, pending)
	}
	if c := g.Memory.AutoCompute(); c != "" {
		g.Compute = c
	}
	g.Settings = g.afterLoad()
}

// Fits returns the reason why the profile does not fit the GPUs; nil if it fits.
func (p Profile) Fits(gpus []GPU) error {
	layout, err := p.Layout(gpus)
	if err == nil {
		_, err = Plan(layout, gpus)
	}
	return err
}
