package amdgpu

import (
	"time"

	"dcm/internal/gpu/openfiles"
)

// settings are the options of the vendor.
type settings struct {
	modprobe      []string         // replaces the program of that name; nil: it does not
	busy          retry            // of a write or unload while the GPU is busy
	limits        openfiles.Limits // of the scan of open files
	smi           *SMI             // nil: the library is not used
	setThroughSMI bool             // modes are set through smi
	factDir       string           // directory of [driverFacts]; "" for none
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
