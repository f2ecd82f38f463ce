package partition

import (
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

	DestroyInstances Kind = "mig-clear" // take all instances of one GPU away
	SetMIGMode       Kind = "mig-mode"  // turn MIG on or off for one GPU
	CreateInstances  Kind = "mig-fill"  // make one GPU's instances
)

// kinds lists them in that order.
func kinds() []Kind {
	return []Kind{RequestMemory, ReloadDriver, SwitchCompute, DestroyInstances, SetMIGMode, CreateInstances}
}

// Vendor tells whose GPUs have steps of the kind.
func (k Kind) Vendor() Vendor {
	if k.mig() {
		return NVIDIA
	}
	return AMD
}

func (k Kind) mig() bool { return k == DestroyInstances || k == SetMIGMode || k == CreateInstances }

// Reloads reports whether a step of the kind takes the vendor's driver away, and so
// touches every GPU of its node.
func (k Kind) Reloads() bool { return k == ReloadDriver }

// Shows reports whether the GPUs are seen otherwise after a step of the kind. A
// request is not seen before the driver is loaded the next time.
func (k Kind) Observable() bool { return k != RequestMemory }

// Together reports whether steps of the kind may be made at once.
func (k Kind) Concurrent() bool { return k == SwitchCompute || k.mig() }

// After reports whether steps of the kind follow those of another in a plan.
func (k Kind) Follows(other Kind) bool {
	return slices.Index(kinds(), k) > slices.Index(kinds(), other)
}

// Step is one change.
type Step struct {
	Kind Kind      `json:"kind"`
	GPU  Address   `json:"gpu,omitempty"`  // the GPU written to; empty for a reload
	Hive []Address `json:"hive,omitempty"` // every GPU that a memory request covers
	From string    `json:"from,omitempty"`
	To   string    `json:"to,omitempty"`

	MIG   *MIG `json:"mig,omitempty"`   // the instances that a fill makes, in this order
	Reset bool `json:"reset,omitempty"` // switching MIG resets the GPU
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
	if s.Kind.mig() {
		return s.migText()
	}
	return fmt.Sprintf("switch %s from %s to %s", s.GPU, s.From, s.To)
}

// Done is what the step has done, once it has; back where that was a way back.
func (s Step) DoneText(back bool) string {
	again := ""
	if back {
		again = " back"
	}
	switch s.Kind {
	case RequestMemory:
		gpus := "1 GPU"
		if n := len(s.Hive); n > 1 {
			gpus = fmt.Sprintf("%d GPUs", n)
		}
		return fmt.Sprintf("requested %s instead of %s for %s through %s", s.To, s.From, gpus, s.GPU)
	case ReloadDriver:
		return "reloaded the driver"
	case DestroyInstances, SetMIGMode, CreateInstances:
		return s.migDone(again)
	}
	return fmt.Sprintf("switched %s%s from %s to %s", s.GPU, again, s.From, s.To)
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
func (s Steps) NextBatch() (now, then Steps) {
	if len(s) == 0 {
		return nil, nil
	}
	n := 1
	for n < len(s) && s[0].Kind.Concurrent() && s[n].Kind == s[0].Kind {
		n++
	}
	return s[:n], s[n:]
}
