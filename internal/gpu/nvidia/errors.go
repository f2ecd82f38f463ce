package nvidia

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// Error is an error of dcm-nvml, or the reason why it did not reply.
type Error struct {
	Op   nvml.Op
	GPU  partition.Address // "" if the request was about several GPUs
	Kind nvml.Kind
	Text string
	Err  error  // set if the program did not reply
	Hint string // added to the hint of the kind

	heldInKernel bool // a kernel module holds the GPU
}

func (e *Error) Error() string {
	what := map[nvml.Op]string{nvml.Look: "read", nvml.Mode: "set the MIG mode of", nvml.Clear: "destroy the instances of", nvml.Fill: "create instances on"}[e.Op]
	whom := string(e.GPU)
	if whom == "" {
		whom = "the NVIDIA GPUs"
	}
	return fmt.Sprintf("cannot %s %s: %s", what, whom, e.Text)
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes an instance or GPU in use match EBUSY.
func (e *Error) Is(target error) bool { return target == unix.EBUSY && e.Kind == nvml.InUse }

// NeedsReboot reports whether only a reboot helps.
func (e *Error) NeedsReboot() bool { return e.Kind == nvml.ResetRequired }

// NoRoomOn returns the GPU that has no room for a new instance; "" if this is another error.
func (e *Error) NoRoomOn() partition.Address {
	if e.Kind == nvml.NoResources || e.Occupied() {
		return e.GPU
	}
	return ""
}

// Occupied reports whether another instance has the slots of a new one, and nothing was changed.
func (e *Error) Occupied() bool { return e.Kind == nvml.Occupied }

// HeldInKernel reports whether a kernel module holds the GPU, so that a retry fails until the
// module is unloaded.
func (e *Error) HeldInKernel() bool { return e.heldInKernel }

func failure(do nvml.Op, a partition.Address, f *nvml.Failure) *Error {
	return &Error{Op: do, GPU: a, Kind: f.Kind, Text: f.Text}
}

// Kinds of errors without a reply: the program was killed or wrote nothing, or does not
// exist.
const (
	noAnswer  nvml.Kind = "no-answer"
	noProgram nvml.Kind = "no-program"
)

// meaning is the hint for a kind of error, and whether a retry may succeed.
type meaning struct {
	hint      string
	transient bool
}

func meanings() map[nvml.Kind]meaning {
	const log = "see the kernel log (journalctl -k -g NVRM)"
	const install = "install libnvidia-ml.so.1 in the version of the driver; it is in the package of nvidia-smi"
	return map[nvml.Kind]meaning{
		nvml.InUse: {"end the processes that 'dcm holders' names, or list their units as clients. If it names none, DCGM may hold MIG devices that it once monitored: " +
			"make nvidia-dcgm a client, or restart it", true},
		nvml.ResetRequired: {"reboot the host, or set reboot = \"once\"", false},
		nvml.Timeout:       {log, true},
		noAnswer:           {log, true},
		noProgram:          {"install the package of dcm again; it contains dcm-nvml", false},
		nvml.NoDriver:      {"load the driver with 'modprobe nvidia'; dcm then continues", true},
		nvml.NoNodes:       {"run 'nvidia-smi' as root or start nvidia-persistenced at boot to create the device nodes; the next run of dcm-apply.service creates them too", true},
		nvml.Lost:          {log + "; if the GPU has left the bus, reboot or power-cycle the host", false},
		nvml.NotFound:      {install, false},
		nvml.NotLoaded:     {install, false},
		nvml.WrongPair:     {"after an update of the packages, load the new driver or reboot", false},
		nvml.Untrusted:     {"let only root write the library and the directories of its path", false},
		nvml.NoPermission: {"check that no drop-in removes CAP_SYS_ADMIN from dcm-apply.service; MIG needs it. " +
			"Only its holders and the daemon of dcm can open a GPU that is reserved exclusively; use 'dcm status'", false},
		nvml.NoResources:  {"see which instances the GPU has ('nvidia-smi mig -lgi'), then run 'dcm apply'", true},
		nvml.Occupied:     {"see which instances the GPU has ('nvidia-smi mig -lgi'), then run 'dcm apply'", true},
		nvml.NotSupported: {"check whether the driver supports MIG on this GPU, and whether the GPU is used for vGPUs", false},
		nvml.Mismatch:     {log + "; the driver did not do what it reported", false},
	}
}

// accessDenied reports whether this process lacks the permission to read the GPU, so that another
// process may be able to read it.
func (e *Error) accessDenied() bool { return e.Op == nvml.Look && e.Kind == nvml.NoPermission }

func (e *Error) transient() bool { return meanings()[e.Kind].transient }

// Explain implements [gpu.Executor].
func (*executor) Explain(err error) (hint string, transient bool) { return explain(err) }

// explain returns the hint for an error, and whether a retry may succeed.
func explain(err error) (hint string, transient bool) {
	if e, ok := errors.AsType[*Error](err); ok {
		hint = e.Hint + meanings()[e.Kind].hint
	}
	transient = gpu.ClassifyTransient(err, func(err error, last bool) (transient, known bool) {
		if e, ok := err.(*Error); ok {
			return e.transient(), true
		}
		return errors.Is(err, context.DeadlineExceeded), last
	})
	return hint, transient
}
