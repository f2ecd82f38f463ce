// Package exitcode has the exit codes of dcm's programs, and errors that carry one. It
// knows nothing of what goes wrong.
package exitcode

import "errors"

// Exit codes, after sysexits(3) where one fits. They are a promise: the manual
// lists them and the units rely on them.
const (
	OK        = 0
	Failed    = 1
	Differs   = 2  // the GPUs are not as the profile says
	Unseen    = 3  // the state cannot be seen from here
	Overtaken = 4  // another profile was selected meanwhile
	Usage     = 64 // EX_USAGE
	Permanent = 69 // EX_UNAVAILABLE: the profile cannot be put on these GPUs; trying again does not help
	Transient = 75 // EX_TEMPFAIL: trying again may help
	Config    = 78 // EX_CONFIG

	NotExecutable = 126 // of dcm run, as shells have it: the command cannot be executed
	NotFound      = 127 // there is no such command, or not its interpreter
)

// coded is an error with an exit code. Its text may be empty when all has been
// said on standard output.
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

// With gives err, which may be nil, an exit code.
func With(code int, err error) error { return &coded{code, err} }

// Code is the exit code that err carries, or OK for none, or else Failed.
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
