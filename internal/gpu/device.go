package gpu

import (
	"errors"
	"strconv"

	"dcm/internal/gpu/partition"
)

// Roots are the directories under which the kernel's file systems are found:
// "/sys", "/proc" and "/dev" on a host.
type Roots struct{ Sys, Proc, Dev string }

// Device is a display or accelerator function on the PCI bus.
type Device struct {
	partition.GPU        // without a mode on what cannot be partitioned; Why tells
	SkipReason    string // why the GPU is left alone; "" if it is partitionable
	AccessDenied  bool   // it is kept from this process, as Why says; another may be let look at it

	Model       string   // "MI300X"; "0x1002:0x1234" where not known
	Driver      string   // that is bound; "" if none is
	NUMA        int      // the node it is attached to; -1 where not known
	Card        string   // DRM's name, "card1"; not stable
	RenderNodes []string // of the active partitions, in order: "/dev/dri/renderD128"
	Parts       []Part   // the active partitions, in order
	UniqueID    string   // hexadecimal, as the driver shows it

	// ExclusiveNodes are the device nodes that nobody may have open while this GPU is changed.
	ExclusiveNodes []string

	// From the vendor's library, where it is used; "" otherwise.
	Name, Serial, UUID, DriverVersion string

	// Source tells where a fact came from, for those that have several places:
	// [Sysfs], [Table], or a library's name.
	Source map[string]string
}

// ErrWithheld is why a GPU could not be read that the device cgroup of this process hides.
var ErrAccessDenied = errors.New("the device cgroup of this process hides partitions")

// Part is one active partition of a GPU.
type Part struct {
	Index int // in the GPU
	Minor int // of the render node
	CUs   int // compute units; 0 where not known

	// From [Node.Detail]; zero before.
	Card  string // DRM's name, "card9"; not stable
	ID    string // by which the driver's interfaces name it; it changes with the mode
	Bytes uint64 // of memory

	// The driver's own, for [Vendor.Detail].
	DriverID int
	Banks    int // of memory; 0 where not told

	// Of a partition that has no render node:
	Profile        string   // its own, where partitions of one GPU differ
	Node           string   // its own device node
	CompanionNodes []string // those that who uses it has to open beside that one
}

// RenderNode is the path of the device node that is the partition's own.
func (p Part) RenderNode() string {
	if p.Node != "" {
		return p.Node
	}
	return RenderNode(p.Minor)
}

// RenderNode is the path of DRM's render node with that minor number.
func RenderNode(minor int) string { return "/dev/dri/renderD" + strconv.Itoa(minor) }

// Where a fact came from.
const (
	Sysfs = "sysfs"
	Table = "table" // what dcm knows of the model
)

// Partitionable returns the GPUs among devices whose modes the driver shows.
func Partitionable(devices []Device) []partition.GPU {
	var out []partition.GPU
	for _, d := range devices {
		if d.SkipReason == "" {
			out = append(out, d.GPU)
		}
	}
	return out
}

// Holder is a process that has a GPU's device open.
type Holder struct {
	PID        int
	Command    string
	Unit       string             // the system unit it belongs to; "" if it belongs to none
	Devices    []string           // "/dev/kfd", "/dev/dri/renderD128"
	Vendors    []partition.Vendor // whose GPUs it holds
	LeaseOwner string             // who was given partitions for it, whether it has opened them or not; "" for nobody
}

// NotBound is why a GPU is left alone that has no driver.
const NotBound = "driver not bound"
