package amdgpu

import (
	"fmt"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
	"dcm/internal/worker/serve"
)

// Request and reply of dcm-smi, documented in package amdsmi. They are defined twice, since
// only dcm-smi may contain the code that loads C.

type smiRequest struct {
	Do      string            `json:"do"`
	Library string            `json:"library,omitempty"`
	GPU     partition.Address `json:"gpu,omitempty"`
	Mode    string            `json:"mode,omitempty"`
	Trace   bool              `json:"trace,omitempty"`
}

type smiReply struct {
	Library string       `json:"library"`
	Version string       `json:"version"`
	Compute smiNumbering `json:"compute"`
	Memory  smiNumbering `json:"memory"`
	GPUs    []smiGPU     `json:"gpus"`
	Set     *smiSet      `json:"set"`
	Error   *smiFailure  `json:"error"`

	Refused []serve.Refusal `json:"refused,omitempty"`
}

type smiNumbering struct {
	Known bool   `json:"known"`
	Why   string `json:"why"`
}

type smiGPU struct {
	Address       partition.Address `json:"address"`
	Name          string            `json:"name"`
	Vendor        uint16            `json:"vendor"`
	Device        uint16            `json:"device"`
	Serial        string            `json:"serial"`
	UUID          string            `json:"uuid"`
	Compute       string            `json:"compute"`
	Memory        string            `json:"memory"`
	Driver        string            `json:"driver"`
	DriverVersion string            `json:"driverVersion"`
	Notes         []string          `json:"notes"`
}

type smiSet struct {
	GPU      partition.Address `json:"gpu"`
	Mode     string            `json:"mode"`
	Number   uint32            `json:"number"`
	Function string            `json:"function"`
	Before   string            `json:"before"`
	After    string            `json:"after"`
}

type smiFailure struct {
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Status uint32 `json:"status"`
}

func parseSMIReply(out []byte) (smiReply, error) {
	var r smiReply
	if err := sanitize.JSON(out, &r); err != nil {
		return smiReply{}, fmt.Errorf("the reply is not JSON: %w", err)
	}
	return r, nil
}

func (r smiReply) library() SMILibrary {
	return SMILibrary{File: r.Library, Version: r.Version, NoCompute: r.Compute.Why, NoMemory: r.Memory.Why}
}

// SMIError is a request that dcm-smi did not execute.
type SMIError struct {
	Do   string            // operation of the request
	GPU  partition.Address // "" for all GPUs
	Kind string            // kind of package amdsmi, or "no-program", "no-answer", "deadline", "garbage"
	// Status is the library's status, 0 if it gave none.
	Status uint32
	Err    error
}

// Error names the request to list the GPUs. [SetError] names a request to set a mode.
func (e *SMIError) Error() string {
	text := "libamd_smi: "
	switch e.Do {
	case "version":
		text += "cannot read the version: "
	case "inventory":
		text += "cannot list the GPUs: "
	}
	return text + e.Err.Error()
}

func (e *SMIError) Unwrap() error { return e.Err }

// Absent reports whether the library or dcm-smi is not installed.
func (e *SMIError) Absent() bool { return e.Kind == "not-found" || e.Kind == "no-program" }

func (e *SMIError) Hint() string {
	switch e.Kind {
	case "refused":
		return "" // the driver's error has the hint
	case "unknown-number", "unknown-version":
		return `set [gpu] backend = "auto", so that modes are set through sysfs`
	case "untrusted":
		return "let only root write the library and the directories and links of its path, or name another library in [gpu] library"
	case "not-found", "not-loaded", "unusable":
		return `install AMD's libamd_smi, name it in [gpu] library, or set [gpu] backend = "auto"`
	}
	return `set [gpu] backend = "auto", so that modes are set through sysfs`
}

// statusError is a library error with the matching errno, so that it is classified like an
// error of the driver.
type statusError struct {
	text  string
	errno error
}

func (e *statusError) Error() string { return e.text }

func (e *statusError) Unwrap() error { return e.errno }

// statusUnsupported is the library's status for EOPNOTSUPP, ENOENT and EPERM.
const statusUnsupported = 2

// err returns the failure as an error. The statuses are those observed for refused writes.
func (f smiFailure) err() error {
	errnos := map[uint32]error{
		1: unix.EINVAL, 0xFFFFFFFF: unix.EINVAL, 55: unix.EINVAL,
		statusUnsupported: unix.EOPNOTSUPP, 10: unix.EACCES, 30: unix.EBUSY, 34: unix.ENODEV, 42: unix.EIO, 43: unix.ENXIO,
	}
	if f.Kind == "refused" {
		return &statusError{f.Text, errnos[f.Status]}
	}
	return &statusError{f.Text, nil}
}
