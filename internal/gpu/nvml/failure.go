package nvml

import (
	"errors"
	"fmt"
)

// Kind sorts the errors in an answer by what can be done about them.
type Kind string

// The kinds of error, those of dcm-nvml itself first.
const (
	BadRequest Kind = "bad-request" // not a request
	NoDriver   Kind = "no-driver"   // the module is not loaded: nothing was called
	NoNodes    Kind = "no-nodes"    // it is, and nobody has made its device nodes
	NotFound   Kind = "not-found"   // there is no library
	NotLoaded  Kind = "not-loaded"  // there is one, which the loader refuses
	Untrusted  Kind = "untrusted"   // there is one, which others than root could have put there
	Unconfined Kind = "unconfined"  // the rights that it does not need could not be given up: nothing was loaded
	Unusable   Kind = "unusable"    // it lacks a symbol, or cannot be initialised
	WrongPair  Kind = "wrong-pair"  // library and driver are of different versions
	NoSuchGPU  Kind = "no-such-gpu" // the driver knows no GPU at that address
	NoProfile  Kind = "no-profile"  // the GPU does not offer a profile of that name
	Garbage    Kind = "garbage"     // it succeeded and returned what cannot be
	Mismatch   Kind = "mismatch"    // it succeeded, and something else is read back

	InUse         Kind = "in-use"         // somebody uses the GPU or the instance
	ResetRequired Kind = "reset-required" // the mode takes effect with a reset that the driver does not do by itself
	NotSupported  Kind = "not-supported"
	NoPermission  Kind = "no-permission"
	NoResources   Kind = "insufficient-resources" // the instance does not fit beside those that are there
	Lost          Kind = "lost"                   // the GPU does not answer any more
	Timeout       Kind = "timeout"
	Refused       Kind = "refused" // any other status
)

// Failure is the error of an answer.
type Failure struct {
	Kind   Kind   `json:"kind"`
	Text   string `json:"text"`
	Status uint32 `json:"status,omitempty"` // the library's status, where it gave one
}

func (f *Failure) Error() string { return f.Text }

// Fail makes an error of a kind.
func Fail(kind Kind, format string, args ...any) error {
	return &Failure{Kind: kind, Text: fmt.Errorf(format, args...).Error()}
}

// FailStatus makes an error of a status that the library gave.
func FailStatus(status uint32, format string, args ...any) error {
	kind, text := meaning(status)
	return &Failure{Kind: kind, Text: fmt.Sprintf("%s: %s (%d)", fmt.Sprintf(format, args...), text, status), Status: status}
}

// AsFailure returns err as a Failure; nil for nil.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Kind: Garbage, Text: err.Error()}
}

// The statuses of the library that are asked for by name.
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

// meaning sorts and words a status.
func meaning(status uint32) (Kind, string) {
	type words struct {
		kind Kind
		text string
	}
	table := map[uint32]words{
		1:                      {Unusable, "the library is not initialised"},
		StatusInvalidArgument:  {Refused, "invalid argument, or a handle from before a reset"},
		StatusNotSupported:     {NotSupported, "not supported by this GPU as it is"},
		StatusNoPermission:     {NoPermission, "no permission"},
		StatusNotFound:         {NoSuchGPU, "not found"},
		StatusInsufficientSize: {Garbage, "it has more to tell than there can be"},
		8:                      {Refused, "the GPU has not enough power: its cables are to be looked at"},
		9:                      {NoDriver, "the driver is not loaded"},
		10:                     {Timeout, "the driver did not answer in time"},
		11:                     {Lost, "the GPU's interrupts do not arrive"},
		12:                     {Unusable, "a library that it needs is missing"},
		StatusNoFunction:       {Unusable, "the driver lacks the function"},
		14:                     {Refused, "the GPU's InfoROM is corrupted"},
		StatusLost:             {Lost, "the GPU is lost: it does not answer on the bus"},
		StatusResetRequired:    {ResetRequired, "the GPU has to be reset first"},
		17:                     {NoPermission, "the operating system refused a call"},
		18:                     {WrongPair, "the library and the driver are of different versions"},
		StatusInUse:            {InUse, "somebody uses it"},
		20:                     {Refused, "out of memory"},
		21:                     {NotSupported, "no data"},
		StatusNoResources:      {NoResources, "insufficient resources"},
		StatusVersionMismatch:  {NotSupported, "the library does not know that version of the structure"},
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
