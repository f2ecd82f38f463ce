package apply

import (
	"context"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Node is the hardware that a run changes, as one interface for each use. [gpu.Node] implements all
// of them.
type Node struct {
	Reader   Reader
	Use      UseReader
	Driver   Driver
	Modules  ModuleLoader
	Executor Executor
}

// Reader reads the devices.
type Reader interface {
	// Wait returns the devices once the driver has brought them up.
	Wait(ctx context.Context) ([]gpu.Device, error)
	// WaitAfterLoad is Wait after a load. It does not wait for GPUs that the driver rejected.
	WaitAfterLoad(ctx context.Context) ([]gpu.Device, error)
	// Devices returns the devices in their current state.
	Devices(ctx context.Context) ([]gpu.Device, error)
}

// UseReader reads the use of the GPUs.
type UseReader interface {
	Usage(ctx context.Context) (gpu.Usage, error)
}

// Driver is the set of GPU drivers of a node.
type Driver interface {
	// Loaded reports whether the drivers are loaded, and Load loads them.
	Loaded() bool
	Load(ctx context.Context) error
	// Traits returns the traits of the vendors whose GPUs the node may have.
	Traits() []gpu.Traits
}

// ModuleLoader loads and unloads kernel modules that hold GPUs, see [gpu.HoldingModule].
type ModuleLoader interface {
	ModuleLoaded(name string) bool
	UnloadModule(ctx context.Context, name string) error
	LoadModule(ctx context.Context, name string) error
}

// Executor changes the GPUs.
type Executor interface {
	// Execute executes steps that may run concurrently, and reads each one back. It calls
	// onStep when a step begins and, with its error, when it ends.
	Execute(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error
	// PendingWrites lists the writes that timed out and that a driver may still carry out.
	PendingWrites() []gpu.PendingWrite
}

// drivers are the drivers of a node with the modules that hold its GPUs.
type drivers interface {
	Driver
	ModuleLoader
}
