package service

import (
	"errors"
	"fmt"
	"testing"

	"dcm/internal/bus"
	"dcm/internal/config"
	"dcm/internal/exit"
)

func TestTheStatusSaysWhetherTryingAgainMayHelp(t *testing.T) {
	for want, err := range map[int]error{
		exit.OK:        nil,
		exit.Failed:    errors.New("no"),
		exit.Config:    fmt.Errorf("no: %w", &config.Errors{}),
		exit.Transient: fmt.Errorf("no: %w", bus.ErrCrowded),
		exit.Usage:     exit.With(exit.Usage, bus.ErrCrowded),
	} {
		if got := Code(err); got != want {
			t.Errorf("%v ends with %d, want %d", err, got, want)
		}
	}
}
