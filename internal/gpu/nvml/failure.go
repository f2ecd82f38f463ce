package nvml

import (
	"fmt"

	"dcm/internal/worker/serve"
)

// Kind classifies errors of a reply by what can be done about them.
type Kind string

// Kinds of errors. Those of dcm-nvml itself are first.
const (
	BadRequest Kind = "bad-request" // the request is invalid
	NoDriver   Kind = "no-driver"   // the driver module is not loaded; no function was called
	NoNodes    Kind = "no-nodes"    // the module is loaded and its device nodes do not exist
	NotFound   Kind = "not-found"   // the library does not exist
	NotLoaded  Kind = "not-loaded"  // the dynamic loader refuses the library
	Untrusted  Kind = "untrusted"   // a user other than root could have written the library
	Unconfined Kind = "unconfined"  // privileges could not be dropped; nothing was loaded
	Unusable   Kind = "unusable"    // the library lacks a symbol or cannot be initialised
	WrongPair  Kind = "wrong-pair"  // the library and the driver are of different versions
	NoSuchGPU  Kind = "no-such-gpu" // the driver has no GPU at that address
	NoProfile  Kind = "no-profile"  // the GPU does not offer the profile
	Garbage    Kind = "garbage"     // the library succeeded and returned invalid data
	Mismatch   Kind = "mismatch"    // the library succeeded and another state was read back

	InUse         Kind = "in-use"         // a process uses the GPU or the instance
	ResetRequired Kind = "reset-required" // the mode needs a reset that the driver does not do itself
	NotSupported  Kind = "not-supported"
	NoPermission  Kind = "no-permission"
	NoResources   Kind = "insufficient-resources" // the instance does not fit with the existing ones
	Occupied      Kind = "occupied"               // another instance has the slots; nothing was changed
	Lost          Kind = "lost"                   // the GPU does not respond
	Timeout       Kind = "timeout"
	Refused       Kind = "refused" // any other status
)

// Failure is the error of a reply.
type Failure = serve.Failure[Kind]

// Fail returns an error of a kind.
func Fail(kind Kind, format string, args ...any) error { return serve.Fail(kind, format, args...) }

// FailStatus returns an error for a status of the library.
func FailStatus(status uint32, format string, args ...any) error {
	kind, text := meaning(status)
	return &Failure{Kind: kind, Text: fmt.Sprintf("%s: %s (%d)", fmt.Sprintf(format, args...), text, status), Status: status}
}

// AsFailure returns err as a Failure; nil for nil.
func AsFailure(err error) *Failure { return serve.AsFailure(err, Garbage) }

// Statuses of the library (nvmlReturn_t) that dcm uses by name.
const (
	StatusSuccess          = 0
	StatusInvalidArgument  = 2
	StatusNotSupported     = 3
	StatusNoPermission     = 4
	StatusNotFound         = 6
	StatusInsufficientSize = 7
	StatusNoFunction       = 13
	StatusLost             = 15
	StatusResetRequired    = 16
	StatusInUse            = 19
	StatusNoResources      = 23
	StatusVersionMismatch  = 25
)

// meaning returns the kind and the text of a status.
func meaning(status uint32) (Kind, string) {
	type words struct {
		kind Kind
		text string
	}
	table := map[uint32]words{
		1:                      {Unusable, "the library is not initialised"},
		StatusInvalidArgument:  {Refused, "invalid argument, or a handle from before a reset"},
		StatusNotSupported:     {NotSupported, "not supported by this GPU in its current state"},
		StatusNoPermission:     {NoPermission, "no permission"},
		StatusNotFound:         {NoSuchGPU, "not found"},
		StatusInsufficientSize: {Garbage, "it returned more entries than possible"},
		8:                      {Refused, "the GPU has not enough power: check its power cables"},
		9:                      {NoDriver, "the driver is not loaded"},
		10:                     {Timeout, "the driver did not reply in time"},
		11:                     {Lost, "the GPU's interrupts do not arrive"},
		12:                     {Unusable, "a library that it needs is missing"},
		StatusNoFunction:       {Unusable, "the driver lacks the function"},
		14:                     {Refused, "the GPU's InfoROM is corrupted"},
		StatusLost:             {Lost, "the GPU is lost: it does not respond on the bus"},
		StatusResetRequired:    {ResetRequired, "the GPU has to be reset first"},
		17:                     {NoPermission, "the operating system refused a call"},
		18:                     {WrongPair, "the library and the driver are of different versions"},
		StatusInUse:            {InUse, "in use"},
		20:                     {Refused, "out of memory"},
		21:                     {NotSupported, "no data"},
		StatusNoResources:      {NoResources, "insufficient resources"},
		StatusVersionMismatch:  {NotSupported, "the library does not support that version of the structure"},
		26:                     {NotSupported, "deprecated"},
		27:                     {Timeout, "not ready yet"},
		28:                     {NoSuchGPU, "no GPU was found"},
		29:                     {Refused, "the GPU is in a state that does not allow it"},
		30:                     {ResetRequired, "the GPU cannot be reset in that way"},
	}
	if w, ok := table[status]; ok {
		return w.kind, w.text
	}
	return Refused, "unknown error"
}
