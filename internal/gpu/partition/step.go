package partition

import (
	"fmt"
	"slices"
)

// Kind is the kind of change that a step makes.
type Kind string

// The kinds of step, in the order of a plan.
const (
	RequestMemory Kind = "memory"  // record the memory mode for the next driver load, for a whole hive
	ReloadDriver  Kind = "reload"  // unload and load the driver, for all its GPUs
	SwitchCompute Kind = "compute" // switch the compute mode of one GPU

	SetAllocation Kind = "allocation" // set the memory allocation of one GPU, which may be in use

	DestroyInstances Kind = "mig-clear" // destroy instances of one GPU
	SetMIGMode       Kind = "mig-mode"  // turn MIG on or off for one GPU
	CreateInstances  Kind = "mig-fill"  // create instances of one GPU
)

// kinds lists them in that order.
func kinds() []Kind {
	return []Kind{RequestMemory, ReloadDriver, SwitchCompute, SetAllocation, DestroyInstances, SetMIGMode, CreateInstances}
}

// Vendor returns the vendor whose GPUs have steps of the kind.
func (k Kind) Vendor() Vendor {
	if k.mig() {
		return NVIDIA
	}
	return AMD
}

func (k Kind) mig() bool { return k == DestroyInstances || k == SetMIGMode || k == CreateInstances }

// Reloads reports whether the step unloads the vendor's driver, which affects all its GPUs.
func (k Kind) Reloads() bool { return k == ReloadDriver }

// MayReset reports whether a step may reset its GPU, which no kernel module may hold then.
func (k Kind) MayReset() bool { return k == SetMIGMode }

// SingleGPU reports whether the step changes one GPU and no other.
func (k Kind) SingleGPU() bool { return k != RequestMemory && !k.Reloads() }

// Observable reports whether the step changes the state that the GPUs show. A memory request
// shows only after the next driver load.
func (k Kind) Observable() bool { return k != RequestMemory }

// Concurrent reports whether steps of the kind may run concurrently.
func (k Kind) Concurrent() bool { return k == SwitchCompute || k == SetAllocation || k.mig() }

// KeepsUsers reports whether the partitions of the GPU stay as they are, with their users.
func (k Kind) KeepsUsers() bool { return k == SetAllocation }

// Follows reports whether the kind comes after the other in a plan.
func (k Kind) Follows(other Kind) bool {
	return slices.Index(kinds(), k) > slices.Index(kinds(), other)
}

// Step is one change.
type Step struct {
	Kind Kind      `json:"kind"`
	GPU  Address   `json:"gpu,omitempty"`  // GPU that is written to; "" for a reload
	Hive []Address `json:"hive,omitempty"` // all GPUs of a memory request
	From string    `json:"from,omitempty"`
	To   string    `json:"to,omitempty"`

	MIG   *MIG `json:"mig,omitempty"`   // instances to create or to destroy, in this order
	Kept  *MIG `json:"kept,omitempty"`  // other instances of the GPU, which stay; nil: none
	Alone bool `json:"-"`               // the other instances of the GPU are not known; they stay, and are not compared
	Reset bool `json:"reset,omitempty"` // switching MIG resets the GPU
	Again bool `json:"again,omitempty"` // an allocation that the GPU has before the plan, and that the plan resets
}

// MayRevert reports whether the driver is known to report success for such a step and to show
// the former state a moment later: MIG turned off on a GB200 (dra-driver-nvidia-gpu pull
// request 852), and destroyed instances on an H100 (go-nvml issue 146).
func (s Step) MayRevert() bool {
	return s.Kind == DestroyInstances || s.Kind == SetMIGMode && !s.On()
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
	case SetAllocation:
		if s.Again {
			return fmt.Sprintf("set the memory allocation of %s to %s again, since the driver resets it", s.GPU, s.To)
		}
		return fmt.Sprintf("set the memory allocation of %s from %s to %s", s.GPU, s.From, s.To)
	}
	if s.Kind.mig() {
		return s.migText()
	}
	return fmt.Sprintf("switch %s from %s to %s", s.GPU, s.From, s.To)
}

// DoneText returns the step in the past tense. back marks a step of a rollback.
func (s Step) DoneText(back bool) string {
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
		return s.migDone(back)
	}
	if s.Kind == SetAllocation {
		return fmt.Sprintf("set the memory allocation of %s from %s to %s", s.GPU, s.From, s.To)
	}
	again := ""
	if back {
		again = " back"
	}
	return fmt.Sprintf("switched %s%s from %s to %s", s.GPU, again, s.From, s.To)
}

// Steps is an ordered plan. It is empty if nothing has to change.
type Steps []Step

// GPUs returns the GPUs that the steps change.
func (s Steps) GPUs() []Address {
	var out []Address
	for _, one := range s {
		if one.GPU != "" {
			out = append(out, one.GPU)
		}
		out = append(out, one.Hive...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Reloads reports whether the plan reloads a driver.
func (s Steps) Reloads() bool {
	return slices.ContainsFunc(s, func(st Step) bool { return st.Kind.Reloads() })
}

// KeepsUsers reports whether every step leaves the partitions as they are, with their users.
func (s Steps) KeepsUsers() bool {
	return !slices.ContainsFunc(s, func(st Step) bool { return !st.Kind.KeepsUsers() })
}

// NextBatch splits off the steps that run next, concurrently. After an observable batch, the
// remaining steps are a forecast.
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
