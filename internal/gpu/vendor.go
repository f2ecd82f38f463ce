package gpu

import (
	"context"

	"dcm/internal/gpu/partition"
)

// Vendor is one maker's GPUs on this host, through their driver. It is asked about
// the functions that bear its PCI vendor id, and about nothing else. Its methods may
// be called concurrently, and those with a ctx return when that ends.
type Vendor interface {
	Traits() Traits

	// Describe fills in what the driver shows of the functions, and for each of them
	// why it cannot be partitioned, or the error of looking at it. Its own error is
	// one that no function alone is to blame for.
	Describe(functions []*Function) error

	// Late tells what the driver has yet to do before the function is as it will be,
	// and what to do about it if that is known; "" if nothing, or if waiting does not
	// help.
	Late(f Function) (lacks, cure string)

	// Pulse is the little that changes when one of the GPUs comes up, and whether the
	// driver has been loaded with all that it probed on the way.
	Pulse(gpus []partition.Address) (signs string, live bool)

	// Make carries out steps that may be made at once, reads each one back, and
	// returns their errors joined in the order of the steps. tell is told of each when
	// it starts and, with its error, when it has its end, in one call at a time.
	Make(ctx context.Context, steps []partition.Step, tell Tell) error

	// Loaded reports whether the driver is loaded where a step may have unloaded it,
	// and Load loads it. That its GPUs come up is for others to wait for.
	Loaded() bool
	Load(ctx context.Context) error

	// Usage looks who, other than this process, uses the GPUs: package opened finds who
	// has their device nodes open.
	Usage(ctx context.Context) (Usage, error)

	// Tally is what the driver itself tells of its use, at little cost, in a form to be
	// compared with what it told before.
	Tally() string

	// Concerns tells whether what the kernel says of a device that is not on the PCI
	// bus (subsystem and path of a uevent) may mean that a GPU came, went or changed.
	Concerns(subsystem, path string) bool

	// ModeFiles lists the files whose change is a change of a mode that no uevent
	// tells of.
	ModeFiles() []string

	// Detail adds to the devices' partitions what takes a look at several files for
	// each. What may not be looked at stays zero, and is told.
	Detail(ctx context.Context, devices []*Device) error

	// Enrich adds to the devices what the vendor's library tells of them. Nothing that
	// is known already is replaced. An error leaves them as they are: they are
	// complete without it.
	Enrich(ctx context.Context, devices []*Device) error

	// Library names the vendor's library and its version, or says why it is not used.
	Library(ctx context.Context) (name, state string)

	// Explain says what an operator can do about an error of this vendor's, "" if there
	// is nothing to say, and whether trying again may help.
	Explain(err error) (cure string, transient bool)
}

// Traits is what is always so of a vendor.
type Traits struct {
	Vendor partition.Vendor
	Driver string   // the kernel's module
	Log    []string // words of which one is in every line of the kernel's log about it

	Minors          int    // DRM devices that the driver registers for a GPU that it partitions; 0 for 1
	PartitionPrefix string // what the names of the devices begin with that further partitions are; "" if they are none
}

// Tell is told of a step that has started, or, with its error, of its end.
type Tell func(step partition.Step, started bool, err error)
