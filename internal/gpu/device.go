package gpu

import (
	"errors"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
)

// Roots are the mount points of the kernel's file systems: "/sys", "/proc" and "/dev" on a
// host.
type Roots struct{ Sys, Proc, Dev string }

// SysPath returns a path in sysfs.
func (r Roots) SysPath(elem ...string) string { return r.Sys + "/" + strings.Join(elem, "/") }

// AttributePath returns the path of an attribute of a PCI function.
func (r Roots) AttributePath(a partition.Address, file string) string {
	return AttributePath(r.Sys, a, file)
}

// Module returns the kernel module of that name.
func (r Roots) Module(name string) Module { return Module{Sys: r.Sys, Name: name} }

// Device is a display or accelerator function on the PCI bus.
type Device struct {
	partition.GPU        // no mode is set if SkipReason is
	SkipReason    string // why the GPU cannot be partitioned; "" if it can
	AccessDenied  bool   // the device cgroup hides it from this process; another process may see it

	Model       string   // "MI300X"; "0x1002:0x1234" if unknown
	Driver      string   // bound kernel driver; "" if none
	Binding     Binding  // to the driver
	NUMA        int      // NUMA node; -1 if unknown
	Card        string   // DRM name, "card1"; changes between boots
	RenderNodes []string // of the active partitions, in order: "/dev/dri/renderD128"
	Parts       []Part   // the active partitions, in order
	UniqueID    string   // hexadecimal, from the driver
	Bytes       uint64   // size of the memory; 0 if unknown. [Node.ReadDetails] sets it for AMD GPUs

	// ExclusiveNodes are the device nodes that no process may have open while this GPU is
	// changed.
	ExclusiveNodes []string

	// SharedNode is the one of them that is also a node of other GPUs, such as "/dev/kfd"; ""
	// if there is none. [Holder.Attached] has the GPUs that a process uses through it.
	SharedNode string

	// HeldBy is the kernel module that must be unloaded before the GPU is reset; nil if
	// there is none.
	HeldBy *HoldingModule

	// Guest reports whether the device is a virtual function or a vGPU, which only its host can divide.
	Guest bool

	// Facts of the vendor's library; "" if it is not used.
	Name, Serial, UUID, DriverVersion string

	// Source names the origin of each fact that has several: [Sysfs], [Table], or a library.
	Source map[string]string
}

// Binding identifies the binding of a function to its driver. If a function is removed and found again, or its
// driver is bound to it again, the kernel creates another link to the driver, with another inode number.
type Binding struct {
	Link uint64 // inode number of the link; 0: not bound
	Bus  uint64 // inode number of the bus, which exists until the next boot
}

// NewSince reports whether this is another binding than the earlier one. It is false if one of them does not
// exist, or if the file system changes the inode numbers of what exists.
func (b Binding) NewSince(earlier Binding) bool {
	return b.Bus == earlier.Bus && b.Link != 0 && earlier.Link != 0 && b.Link != earlier.Link
}

// ErrAccessDenied is the error of a GPU that the device cgroup hides from this process.
var ErrAccessDenied = errors.New("the device cgroup of this process hides partitions")

// Part is one active partition of a GPU.
type Part struct {
	Index int // position in the GPU, from 0
	Minor int // minor number of the render node
	CUs   int // compute units; 0 if unknown
	XCC   int // accelerator dies (XCC); 0 if unknown
	// UUID is the identifier in the vendor's runtime, HIP or CUDA; "" if unknown. AMD's drivers
	// before ROCm 7.0 give all partitions of a GPU the same.
	UUID string

	// Set by [Node.ReadDetails]:
	Card  string // DRM name, "card9"; changes between boots
	ID    string // identifier in the driver's interfaces; AMD's changes with the mode
	Bytes uint64 // size of the memory

	// Set by package amdgpu for its own use:
	DriverID int
	Banks    int // memory banks in KFD; 0 if unknown

	// Of a partition without a render node (MIG):
	Profile        string   // MIG profile
	Start          int      // first memory slot of the GPU instance
	Node           string   // device node of the partition alone
	CompanionNodes []string // further nodes that a user of the partition must open
}

// RenderNode returns the path of the partition's own device node.
func (p Part) RenderNode() string {
	if p.Node != "" {
		return p.Node
	}
	return RenderNode(p.Minor)
}

// RenderNode returns the path of the DRM render node with that minor number.
func RenderNode(minor int) string { return "/dev/dri/renderD" + strconv.Itoa(minor) }

// Values of [Device.Source].
const (
	Sysfs = "sysfs"
	Table = "table" // dcm's table of models
)

// Partitionable returns the devices that can be partitioned.
func Partitionable(devices []Device) []partition.GPU {
	var out []partition.GPU
	for _, d := range devices {
		if d.SkipReason == "" {
			out = append(out, d.GPU)
		}
	}
	return out
}

// NotBound is the [Device.SkipReason] of a GPU without a driver.
const NotBound = "driver not bound"
