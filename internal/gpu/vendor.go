package gpu

import (
	"context"

	"dcm/internal/gpu/partition"
)

// Vendor drives the GPUs of one vendor on this host through their kernel driver. It only
// gets functions with its own PCI vendor id. Its methods may be called concurrently, and
// those with a ctx return when ctx ends.
type Vendor struct {
	Traits
	Inspector
	Executor
	UsageReader

	// Library returns the name of the vendor's management library with its version, or the
	// reason why it is not used.
	Library func(ctx context.Context) (name, state string)

	// The following parts are nil if the vendor lacks them.

	// Loader loads a driver that a step can unload.
	Loader DriverLoader

	// ReadDetails adds to the partitions of the devices what takes several file reads for
	// each. Fields that the device cgroup hides stay zero, and the error names them.
	ReadDetails func(ctx context.Context, devices []*Device) error

	// Enrich adds what the vendor's library knows of the devices. It replaces no known
	// fact. After an error the devices are unchanged.
	Enrich func(ctx context.Context, devices []*Device) error

	// Measure returns the usage of each partition of the devices. A figure that is missing
	// for one partition has its reason there. The error is one that concerns all partitions.
	// ReadDetails must have been called for the devices.
	Measure func(ctx context.Context, devices []*Device) ([]PartitionUsage, error)

	// Counters reads the counters of partitions, which it returns in the same order.
	Counters func(ctx context.Context, parts []CountedPartition) ([]PartitionCounters, error)

	// MemoryUse reads the memory of GPUs, see [Node.MemoryUse].
	MemoryUse func(ctx context.Context, gpus []partition.Address) ([]MemoryUse, error)

	// Cleaner cleans partitions between two users.
	Cleaner Cleaner

	// CrossCheck reads the devices through a source that is independent of dcm's own reading.
	CrossCheck func(ctx context.Context, devices []*Device) CrossCheck

	// ModeFiles lists the files for which the driver sends no uevent when they change.
	ModeFiles func() []string

	// PollFingerprint returns a short text that differs after most changes for which neither
	// uevents nor inotify exist.
	PollFingerprint func() string

	// PendingWrites lists the writes that the driver has not returned from.
	PendingWrites func() []PendingWrite

	// ReadModeTables stores the memory modes of every compute mode of the GPUs, for a driver
	// that shows those of one mode at a time, and reports whether it stored any. It writes
	// to the driver.
	ReadModeTables func(ctx context.Context, gpus []partition.GPU) (changed bool, err error)

	// Attach sets [Holder.Attached] of the holders.
	Attach func(holders []Holder) error

	// BusyCheck returns what the driver checks before it changes one GPU. nil means
	// [BusyCheckGPU].
	BusyCheck func() BusyCheck

	// Dropins returns the text of the drop-ins that the vendor needs, by unit name.
	Dropins func() map[string]string
}

// Inspector reads the state of the GPUs.
type Inspector interface {
	// Describe fills in what the driver shows of the functions: for each function its
	// modes, the reason why it cannot be partitioned, or the error of reading it. The
	// returned error is one that concerns all functions.
	Describe(functions []*Function) error

	// NotReady returns what the driver has still to do before the function is usable, and
	// a hint if one is known. reason is "" if the function is ready, or if waiting does not
	// help.
	NotReady(f Function) (reason, hint string)

	// Progress returns a short text that changes when one of the GPUs comes up, and whether
	// the driver module is loaded and has probed its devices.
	Progress(gpus []partition.Address) (fingerprint string, loaded bool)

	// RelevantEvent reports whether a uevent of a device outside the PCI bus may mean that
	// a GPU appeared, disappeared or changed.
	RelevantEvent(subsystem, path string) bool
}

// Executor changes GPUs.
type Executor interface {
	// Execute runs steps that may run concurrently and reads each result back. It returns
	// their errors joined in the order of the steps. It calls onStep when a step starts and
	// when it ends, in one call at a time.
	Execute(ctx context.Context, steps []partition.Step, onStep StepFunc) error

	// Explain returns a hint for an error of this vendor, "" if there is none, and whether
	// a retry may succeed.
	Explain(err error) (hint string, transient bool)
}

// UsageReader finds the processes that use the GPUs.
type UsageReader interface {
	// Usage returns the processes, other than this one, that use the GPUs, and the use that
	// the driver counts.
	Usage(ctx context.Context) (VendorUsage, error)

	// UsageFingerprint returns the driver's own counters of its use as text. It costs
	// little. Two equal texts mean that the use has probably not changed.
	UsageFingerprint() string
}

// DriverLoader loads a kernel driver.
type DriverLoader interface {
	// Loaded reports whether the driver is loaded.
	Loaded() bool

	// Load loads the driver. It does not wait until the GPUs come up.
	Load(ctx context.Context) error
}

// Traits are the constant properties of a vendor.
type Traits struct {
	Vendor         partition.Vendor
	Driver         string   // name of the kernel module
	KernelLogWords []string // every kernel log line about the driver contains one of them

	MinorsPerGPU    int    // DRM devices that the driver registers for each partitionable GPU; 0 means 1
	PartitionPrefix string // prefix of the platform devices of secondary partitions; "" if there are none
}

// StepFunc receives the start of a step, and its end with the error.
type StepFunc func(step partition.Step, started bool, err error)

// Cleaner clears what the users of a partition leave in the registers and local memories of its compute units. It
// does not clear the partition's memory, which the driver does.
type Cleaner interface {
	// Supports reports whether the driver can clean the partitions of a GPU.
	Supports(a partition.Address) bool
	// Clean cleans the partition with that number. It waits for work of the partition.
	Clean(ctx context.Context, a partition.Address, index int) error
}
