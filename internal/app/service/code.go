package service

import (
	"errors"

	"dcm/internal/engine/config/source"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

// Code is the exit status for err, of a unit and of a command.
func Code(err error) int {
	var problems *source.Errors
	c := exitcode.Code(err)
	switch {
	case c != exitcode.Failed:
	case errors.As(err, &problems):
		return exitcode.Config
	case errors.Is(err, dbusapi.ErrCrowded):
		return exitcode.Transient
	}
	return c
}
