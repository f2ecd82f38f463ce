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
}

func (e *Error) Error() string {
	what := map[nvml.Op]string{nvml.Look: "look at", nvml.Mode: "switch MIG of", nvml.Clear: "clear", nvml.Fill: "divide"}[e.Op]
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
	const log = "See the kernel's log (journalctl -k -g NVRM)."
	const install = "Install NVIDIA's library of the version of the driver (libnvidia-ml.so.1, in the package of nvidia-smi)."
	return map[nvml.Kind]meaning{
		nvml.InUse: {"End the processes that `dcm holders` names, or list their units as clients. Where it names none, DCGM may be keeping MIG devices that it has once looked at: " +
			"make nvidia-dcgm a client, or restart it.", true},
		nvml.ResetRequired: {"Reboot the host; with reboot = \"once\" dcm does so by itself.", false},
		nvml.Timeout:       {log, true},
		noAnswer:           {log, true},
		noProgram:          {"Install dcm's package again: dcm-nvml belongs to it.", false},
		nvml.NoDriver:      {"Load the driver with `modprobe nvidia`; dcm goes on when it is there.", true},
		nvml.NoNodes:       {"Run `nvidia-smi` as root, or have nvidia-persistenced started at boot: they make the driver's nodes, and so does the next run of dcm-apply.service.", true},
		nvml.Lost:          {log + " A GPU that has left the bus needs a reboot, or the power taken away.", false},
		nvml.NotFound:      {install, false},
		nvml.NotLoaded:     {install, false},
		nvml.WrongPair:     {"Library and driver are of different versions, as after an update of packages: load the new driver, or reboot.", false},
		nvml.Untrusted:     {"See to it that only root can write the library and the directories above it.", false},
		nvml.NoPermission: {"dcm-apply.service needs CAP_SYS_ADMIN for MIG, which dcm's generator adds where there is an NVIDIA GPU: see whether a drop-in takes it away. " +
			"A GPU that is reserved exclusively as a whole opens for its holders and dcm's daemon alone, whom `dcm status` asks.", false},
		nvml.NoResources:  {"See what else has been made on the GPU meanwhile (`nvidia-smi mig -lgi`); `dcm apply` begins anew.", true},
		nvml.NotSupported: {"See whether the driver is recent enough for MIG on this GPU, and whether the GPU belongs to a vGPU.", false},
		nvml.Mismatch:     {log + " The driver did not do what it reported.", false},
	}
}

// accessDenied reports whether another process may be able to read the GPU.
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
