package amdgpu

import (
	"strings"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// Node is the [gpu.Vendor] for AMD. Its methods may be called concurrently.
type Node struct {
	roots         gpu.Roots
	modprobe      []string         // command and first arguments; nil: modprobe
	busyTimeout   time.Duration    // how long a write or unload is retried while the GPU is busy
	retryInterval time.Duration    // between two retries
	limits        openfiles.Limits // of the scan of open files
	loadTimeout   time.Duration    // for a driver load after the caller's deadline

	writes        pendingWrites
	smi           *SMI          // nil: the library is not used
	setThroughSMI bool          // modes are set through smi
	smiSemaphore  chan struct{} // limits sets through smi to one at a time
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

// Option configures a [Node].
type Option func(*Node)

// Modprobe sets the command, with its first arguments, to which "-r amdgpu" or "amdgpu" is
// added. The default is modprobe.
func Modprobe(command ...string) Option { return func(n *Node) { n.modprobe = command } }

// BusyRetry sets how long and how often a write to a busy GPU is retried. The defaults are 2
// s and 30 ms. The driver tears a compute process down asynchronously, so that EBUSY
// outlives the process for a moment (kfd_process_wq_release).
func BusyRetry(total, every time.Duration) Option {
	return func(n *Node) { n.busyTimeout, n.retryInterval = total, every }
}

// ScanLimits sets the time limits of the scan of open files, for all processes and for one.
func ScanLimits(total, each time.Duration) Option {
	return func(n *Node) { n.limits = openfiles.Limits{Total: total, PerProcess: each} }
}

// Traits implements [gpu.Vendor].
func (n *Node) Traits() gpu.Traits {
	return gpu.Traits{Vendor: partition.AMD, Driver: driver, KernelLogWords: []string{"amdgpu", "kfd", "amd_xcp"},
		MinorsPerGPU: 8, PartitionPrefix: "amdgpu_xcp"} // amdgpu_xcp.h: MAX_XCP
}

// Open returns the node. It reads nothing.
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
