package amdsmi

import (
	"fmt"

	"dcm/internal/worker/serve"
)

// Kind classifies errors of a reply by what can be done about them.
type Kind string

// Kinds of errors.
const (
	BadRequest     Kind = "bad-request"     // the request is invalid
	NotFound       Kind = "not-found"       // the library does not exist
	NotLoaded      Kind = "not-loaded"      // the dynamic loader refuses the library
	Untrusted      Kind = "untrusted"       // a user other than root could have written the library
	Unconfined     Kind = "unconfined"      // privileges could not be dropped; nothing was loaded
	Unusable       Kind = "unusable"        // the library lacks a symbol or cannot be initialised
	UnknownVersion Kind = "unknown-version" // the library reports an invalid version
	UnknownNumber  Kind = "unknown-number"  // the mode numbers of this version are unknown; nothing was set
	NoSuchGPU      Kind = "no-such-gpu"     // the library has no GPU at that address
	Garbage        Kind = "garbage"         // the library succeeded and returned invalid data
	Refused        Kind = "refused"         // the library or the driver refused, see the status
	Mismatch       Kind = "mismatch"        // the library succeeded and another mode was read back
)

// Failure is the error of a reply.
type Failure = serve.Failure[Kind]

func fail(kind Kind, format string, args ...any) error { return serve.Fail(kind, format, args...) }

func failStatus(kind Kind, status uint32, format string, args ...any) error {
	return &Failure{Kind: kind, Text: fmt.Sprintf(format, args...) + ": " + statusText(status), Status: status}
}

// failure returns err as a Failure; nil for nil.
func failure(err error) *Failure { return serve.AsFailure(err, Garbage) }

// statusText returns the text of statuses that were observed for refused writes. The
// library's own texts differ between versions. Its numbers do not, except 0xffffffff, which
// is 1 after 6.1.2.
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
