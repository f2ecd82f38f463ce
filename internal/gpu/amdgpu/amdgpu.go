package amdgpu

import (
	"strings"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// Node is the part of a machine that the driver drives: its GPUs, looked at and
// changed. It is a [gpu.Vendor]. Its methods may be called concurrently.
type Node struct {
	roots         gpu.Roots
	modprobe      []string         // the command and its first arguments; nil: modprobe, looked up
	busyTimeout   time.Duration    // how long a busy GPU may take to let go of a process that ended
	retryInterval time.Duration    // between two writes meanwhile
	limits        openfiles.Limits // for looking who uses the GPUs
	loadTimeout   time.Duration    // for loading the driver when the caller's deadline is over

	writes        pendingWrites
	smi           *SMI          // nil: AMD's library is not used
	setThroughSMI bool          // modes are set through it
	smiSemaphore  chan struct{} // holds a value while one is being set
}

// These are optional for a vendor.
var (
	_ gpu.DriverLoader  = (*Node)(nil)
	_ gpu.DetailReader  = (*Node)(nil)
	_ gpu.Enricher      = (*Node)(nil)
	_ gpu.ModeWatcher   = (*Node)(nil)
	_ gpu.PendingWriter = (*Node)(nil)
	_ gpu.CrossChecker  = (*Node)(nil)
	_ gpu.Measurer      = (*Node)(nil)
)

// Option changes how a node is treated.
type Option func(*Node)

// Modprobe sets the command that loads and unloads the driver, with its first
// arguments; "-r amdgpu" or "amdgpu" is added. Without it, it is modprobe.
func Modprobe(command ...string) Option { return func(n *Node) { n.modprobe = command } }

// Settle sets how long a write that finds the GPU busy is repeated, and how
// often. The driver tears a compute process down asynchronously, so that EBUSY
// outlives the process by a moment (kfd_process_wq_release).
func BusyRetry(total, every time.Duration) Option {
	return func(n *Node) { n.busyTimeout, n.retryInterval = total, every }
}

// Look sets how long it may take to look who uses the GPUs, in all and at one process.
func ScanLimits(total, each time.Duration) Option {
	return func(n *Node) { n.limits = openfiles.Limits{Total: total, PerProcess: each} }
}

// Traits is what is always so of the driver.
func (n *Node) Traits() gpu.Traits {
	return gpu.Traits{Vendor: partition.AMD, Driver: driver, KernelLogWords: []string{"amdgpu", "kfd", "amd_xcp"},
		MinorsPerGPU: 8, PartitionPrefix: "amdgpu_xcp"} // amdgpu_xcp.h: MAX_XCP
}

// Open returns the node under the roots. It touches nothing.
func Open(r gpu.Roots, opts ...Option) *Node {
	n := &Node{
		roots:         r,
		busyTimeout:   2 * time.Second,
		retryInterval: 30 * time.Millisecond,
		loadTimeout:   2 * time.Minute,
		limits:        openfiles.DefaultLimits(),
	}
	for _, o := range opts {
		o(n)
	}
	return n
}

// Files of a GPU's PCI device.
const (
	computeFile          = "current_compute_partition"
	availableComputeFile = "available_compute_partition"
	memoryFile           = "current_memory_partition"
	availableMemoryFile  = "available_memory_partition"
)

const driver = "amdgpu"

func (n *Node) sys(elem ...string) string {
	return n.roots.Sys + "/" + strings.Join(elem, "/")
}

func (n *Node) pci(a partition.Address, file string) string {
	return gpu.AttributePath(n.roots.Sys, a, file)
}
