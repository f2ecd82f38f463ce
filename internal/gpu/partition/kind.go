package partition

import "slices"

// Kind is the kind of change that a step makes.
type Kind string

// The kinds of step, in the order of a plan.
const (
	RequestMemory Kind = "memory"  // record the memory mode for the next driver load, for a whole hive
	ReloadDriver  Kind = "reload"  // unload and load the driver, for all its GPUs
	SwitchCompute Kind = "compute" // switch the compute mode of one GPU

	SetAllocation Kind = "allocation" // set the memory allocation of one GPU, which may be in use
	SetIsolation  Kind = "isolation"  // set the isolation of one GPU, which may be in use

	DestroyInstances Kind = "mig-clear" // destroy instances of one GPU
	SetMIGMode       Kind = "mig-mode"  // turn MIG on or off for one GPU
	CreateInstances  Kind = "mig-fill"  // create instances of one GPU
)

// kinds lists them in that order.
func kinds() []Kind {
	return []Kind{RequestMemory, ReloadDriver, SwitchCompute, SetAllocation, SetIsolation, DestroyInstances, SetMIGMode, CreateInstances}
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
func (k Kind) Concurrent() bool { return k == SwitchCompute || k.KeepsUsers() || k.mig() }

// KeepsUsers reports whether the partitions of the GPU stay as they are, with their users.
func (k Kind) KeepsUsers() bool { return k == SetAllocation || k == SetIsolation }

// Follows reports whether the kind comes after the other in a plan.
func (k Kind) Follows(other Kind) bool {
	return slices.Index(kinds(), k) > slices.Index(kinds(), other)
}
