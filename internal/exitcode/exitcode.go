// Package exitcode defines the exit codes of dcm's programs and errors that carry one.
package exitcode

import "errors"

// Exit codes, from sysexits(3) if one fits. They are stable: the manual documents them and
// the units rely on them.
const (
	OK        = 0
	Failed    = 1
	Differs   = 2  // the GPUs differ from the profile
	Unseen    = 3  // the state cannot be read by this process
	Overtaken = 4  // another profile was selected in the meantime
	Usage     = 64 // EX_USAGE
	Permanent = 69 // EX_UNAVAILABLE: the GPUs cannot get the profile; a retry does not help
	Transient = 75 // EX_TEMPFAIL: a retry may succeed
	Config    = 78 // EX_CONFIG

	NotExecutable = 126 // dcm run, as in shells: the command cannot be executed
	NotFound      = 127 // the command, or its interpreter, does not exist
)

// coded is an error with an exit code. Its text is empty if standard output has everything.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *coded) Unwrap() error { return e.err }

// With returns err, which may be nil, with an exit code.
func With(code int, err error) error { return &coded{code, err} }

// Code returns the exit code of err: OK for nil, and Failed for an error without a code.
func Code(err error) int {
	var c *coded
	switch {
	case err == nil:
		return OK
	case errors.As(err, &c):
		return c.code
	}
	return Failed
}
