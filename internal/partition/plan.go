package partition

import (
	"errors"
	"fmt"
	"slices"
)

// Kind is what a step does.
type Kind string

// The kinds of step, in the order in which a plan holds them.
const (
	RequestMemory Kind = "memory"  // record the memory mode for the next driver load, for a whole hive
	ReloadDriver  Kind = "reload"  // unload and load the driver: every GPU of the node
	SwitchCompute Kind = "compute" // switch one GPU's compute mode
)

// kinds lists them in that order.
func kinds() []Kind { return []Kind{RequestMemory, ReloadDriver, SwitchCompute} }

// Vendor tells whose GPUs have steps of the kind.
func (k Kind) Vendor() Vendor { return AMD }

// Reloads reports whether a step of the kind takes the vendor's driver away, and so
// touches every GPU of its node.
func (k Kind) Reloads() bool { return k == ReloadDriver }

// Shows reports whether the GPUs are seen otherwise after a step of the kind. A
// request is not seen before the driver is loaded the next time.
func (k Kind) Shows() bool { return k != RequestMemory }

// Together reports whether steps of the kind may be made at once.
func (k Kind) Together() bool { return k == SwitchCompute }

// After reports whether steps of the kind follow those of another in a plan.
func (k Kind) After(other Kind) bool {
	return slices.Index(kinds(), k) > slices.Index(kinds(), other)
}

// Step is one change.
type Step struct {
	Kind Kind      `json:"kind"`
	GPU  Address   `json:"gpu,omitempty"`  // the GPU written to; empty for a reload
	Hive []Address `json:"hive,omitempty"` // every GPU that a memory request covers
	From string    `json:"from,omitempty"`
	To   string    `json:"to,omitempty"`
}

func (s Step) String() string {
	switch s.Kind {
	case RequestMemory:
		if len(s.Hive) > 1 {
			return fmt.Sprintf("request %s for %d GPUs of one hive, through %s (now %s)", s.To, len(s.Hive), s.GPU, s.From)
		}
		return fmt.Sprintf("request %s for %s (now %s)", s.To, s.GPU, s.From)
	case ReloadDriver:
		return "reload the driver"
	}
	return fmt.Sprintf("switch %s from %s to %s", s.GPU, s.From, s.To)
}

// Steps is an ordered plan; empty when there is nothing to do.
type Steps []Step

// Reloads reports whether the plan reloads the driver, and so touches every GPU
// of the node.
func (s Steps) Reloads() bool {
	return slices.ContainsFunc(s, func(st Step) bool { return st.Kind.Reloads() })
}

// Round takes from the plan the steps that are to be made next, all at once. What is
// left behind a round that shows is a forecast.
func (s Steps) Round() (now, then Steps) {
	if len(s) == 0 {
		return nil, nil
	}
	n := 1
	for n < len(s) && s[0].Kind.Together() && s[n].Kind == s[0].Kind {
		n++
	}
	return s[:n], s[n:]
}

// Plan returns the steps that bring the GPUs seen to the layout wanted: all
// memory requests, one driver reload if there is any request, then the compute
// switches. There is no step for a GPU that is already right.
//
// The compute switches behind a reload are a forecast, since the driver picks a
// compute mode itself when it loads: observe and plan again after the reload.
//
// Every GPU that cannot have what is wanted is told, as [Unsupported].
func Plan(want Layout, have []GPU) (Steps, error) {
	gpus := inOrder(have)
	var cannot []*Unsupported
	for _, g := range gpus {
		if e := judge(g, want); e != nil {
			cannot = together(cannot, e)
		}
	}
	steps, err := memorySteps(want, gpus)
	errs := []error{err}
	for _, e := range cannot {
		e.All = len(e.GPUs) == len(gpus)
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
		if w, ok := want.Modes[g.Address]; ok && w.Compute != g.Compute {
			steps = append(steps, Step{Kind: SwitchCompute, GPU: g.Address, From: string(g.Compute), To: string(w.Compute)})
		}
	}
	return steps, nil
}

// memorySteps returns one request per hive that has a GPU in another memory mode
// than wanted; a GPU in no hive is a hive of its own.
func memorySteps(want Layout, gpus []GPU) (Steps, error) {
	var steps Steps
	var errs []error
	done := make(map[uint64]bool)
	for _, g := range gpus {
		w, ok := want.Modes[g.Address]
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
	gpus := inOrder(have)
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
				g.reload(pending[g.Address])
			case SwitchCompute:
				if s.GPU == g.Address {
					g.Compute = Compute(s.To)
				}
			}
		}
	}
	return gpus
}

// reload is what a driver load does to a GPU with a pending memory request, or
// with none.
func (g *GPU) reload(pending Memory) {
	if pending != "" && pending != g.Memory {
		g.Memory = pending
		// The device's list was for the old memory mode.
		m, _ := LookupModel(g.Device)
		g.AvailableCompute = m.computeFor(pending)
	}
	if c := g.Memory.AfterLoad(); c != "" {
		g.Compute = c
	}
}
