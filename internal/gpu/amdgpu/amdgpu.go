package amdgpu

import (
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// settings are the options of the vendor.
type settings struct {
	modprobe      modprobe
	busy          retry            // of a write or unload while the GPU is busy
	limits        openfiles.Limits // of the scan of open files
	smi           *SMI             // nil: the library is not used
	setThroughSMI bool             // modes are set through smi
}

// Option configures the vendor.
type Option func(*settings)

// Modprobe sets the command, with its first arguments, to which "-r amdgpu" or "amdgpu" is
// added. The default is modprobe.
func Modprobe(command ...string) Option { return func(s *settings) { s.modprobe = command } }

// BusyRetry sets how long and how often a write to a busy GPU is retried. The defaults are 2
// s and 30 ms. The driver tears a compute process down asynchronously, so that EBUSY
// outlives the process for a moment (kfd_process_wq_release).
func BusyRetry(timeout, interval time.Duration) Option {
	return func(s *settings) { s.busy = retry{timeout, interval} }
}

// Library permits the use of AMD's library for facts that sysfs lacks. If sets is true,
// modes are also set through it; they are still read back through sysfs.
func Library(smi SMI, sets bool) Option {
	return func(s *settings) { s.smi, s.setThroughSMI = &smi, sets }
}

// Open returns the vendor. It reads nothing.
func Open(r gpu.Roots, opts ...Option) gpu.Vendor { return newParts(r, opts...).vendor() }

// parts are the parts of the vendor, by subject.
type parts struct {
	inventory *inventory
	modes     *modeSetter
	module    *module
	usage     *usageReader
	details   *detailReader
	meter     *meter
	library   library
}

func newParts(r gpu.Roots, opts ...Option) *parts {
	s := settings{busy: retry{timeout: 2 * time.Second, interval: 30 * time.Millisecond}, limits: openfiles.DefaultLimits()}
	for _, o := range opts {
		o(&s)
	}
	kernel := r.Module(driver)
	k := kfd{r.SysPath("class/kfd/kfd")}
	return &parts{
		inventory: &inventory{r, kernel, k},
		modes:     newModeSetter(r, s),
		module:    &module{kernel, s.modprobe, s.busy},
		usage:     &usageReader{r, kernel, k, s.limits},
		details:   &detailReader{r, k},
		meter:     &meter{r, k},
		library:   library{s.smi, s.setThroughSMI},
	}
}

func (p *parts) vendor() gpu.Vendor {
	return gpu.Vendor{
		Traits: gpu.Traits{Vendor: partition.AMD, Driver: driver, KernelLogWords: []string{"amdgpu", "kfd", "amd_xcp"},
			MinorsPerGPU: 8, PartitionPrefix: "amdgpu_xcp"}, // amdgpu_xcp.h: MAX_XCP
		Inspector:     p.inventory,
		Executor:      executor{p.modes, p.module},
		UsageReader:   p.usage,
		Library:       p.library.version,
		Loader:        p.module,
		ReadDetails:   p.details.read,
		Enrich:        p.library.enrich,
		Measure:       p.meter.measure,
		CrossCheck:    p.library.crossCheck,
		ModeFiles:     p.inventory.modeFiles,
		PendingWrites: p.modes.writes.list,
	}
}

// Files of a GPU's PCI device.
const (
	computeFile          = "current_compute_partition"
	availableComputeFile = "available_compute_partition"
	memoryFile           = "current_memory_partition"
	availableMemoryFile  = "available_memory_partition"
)

const driver = "amdgpu"
