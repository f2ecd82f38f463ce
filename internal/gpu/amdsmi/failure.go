package amdsmi

import (
	"errors"
	"fmt"
)

// Kind sorts the errors in an answer by what can be done about them.
type Kind string

// The kinds of error.
const (
	BadRequest     Kind = "bad-request"     // not a request, or one that names no mode or GPU
	NotFound       Kind = "not-found"       // there is no library
	NotLoaded      Kind = "not-loaded"      // there is one, which the loader refuses
	Untrusted      Kind = "untrusted"       // there is one, which others than root could have put there
	Unconfined     Kind = "unconfined"      // the rights that it does not need could not be given up: nothing was loaded
	Unusable       Kind = "unusable"        // it lacks symbols, or cannot be initialised
	UnknownVersion Kind = "unknown-version" // what it tells of itself is not a version
	UnknownNumber  Kind = "unknown-number"  // the mode numbers of this version are not known: nothing was set
	NoSuchGPU      Kind = "no-such-gpu"     // it knows no GPU at that address
	Garbage        Kind = "garbage"         // it succeeded and returned what cannot be
	Refused        Kind = "refused"         // it, or the driver, refused: see the status
	Mismatch       Kind = "mismatch"        // it succeeded, and another mode is read back
)

// Failure is the error of an answer.
type Failure struct {
	Kind   Kind   `json:"kind"`
	Text   string `json:"text"`
	Status uint32 `json:"status,omitempty"` // the library's status, where it gave one
}

func (f *Failure) Error() string { return f.Text }

func fail(kind Kind, format string, args ...any) error {
	return &Failure{Kind: kind, Text: fmt.Errorf(format, args...).Error()}
}

func failStatus(kind Kind, status uint32, format string, args ...any) error {
	return &Failure{Kind: kind, Text: fmt.Sprintf(format, args...) + ": " + statusText(status), Status: status}
}

// failure returns err as a Failure; nil for nil.
func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Kind: Garbage, Text: err.Error()}
}

// statusText words the statuses seen for writes that the driver refused. The
// library's own texts differ between versions, its numbers do not, but for
// 0xffffffff, which 6.1.2 gives where later versions give 1.
func statusText(status uint32) string {
	texts := map[uint32]string{
		1:          "invalid argument (or a mode incompatible with the current memory mode)",
		2:          "not supported (or the GPU is in reset)",
		10:         "permission denied",
		30:         "busy",
		34:         "the driver is not loaded",
		42:         "input/output error",
		43:         "no such device",
		55:         "the mode is not among the available ones",
		0xFFFFFFFF: "unknown error (an invalid argument, in ROCm 6.1)",
	}
	if t, ok := texts[status]; ok {
		return fmt.Sprintf("status %d: %s", status, t)
	}
	return fmt.Sprintf("status %d", status)
}
