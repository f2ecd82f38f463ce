package service

import (
	"errors"

	"dcm/internal/bus"
	"dcm/internal/config"
	"dcm/internal/exit"
)

// Code is the exit status for err, of a unit and of a command.
func Code(err error) int {
	var problems *config.Errors
	c := exit.Code(err)
	switch {
	case c != exit.Failed:
	case errors.As(err, &problems):
		return exit.Config
	case errors.Is(err, bus.ErrCrowded):
		return exit.Transient
	}
	return c
}
