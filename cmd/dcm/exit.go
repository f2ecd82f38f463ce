package main

import (
	"errors"

	"dcm/internal/config"
)

// Exit codes, after sysexits(3) where one fits. They are a promise: the manual
// lists them and the units rely on them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitDiffers   = 2  // the GPUs are not as the profile says
	exitUsage     = 64 // EX_USAGE
	exitPermanent = 69 // EX_UNAVAILABLE: the profile cannot be put on these GPUs; trying again does not help
	exitTransient = 75 // EX_TEMPFAIL: trying again may help
	exitConfig    = 78 // EX_CONFIG
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

func withCode(code int, err error) error { return &coded{code, err} }

// differs ends a command that found a difference and has told it.
func differs() error { return withCode(exitDiffers, nil) }

func exitCode(err error) int {
	var c *coded
	var problems *config.Errors
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &problems):
		return exitConfig
	}
	return exitFailed
}
