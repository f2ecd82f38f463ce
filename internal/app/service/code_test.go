package service

import (
	"errors"
	"fmt"
	"testing"

	"dcm/internal/engine/config/source"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

func TestTheStatusSaysWhetherTryingAgainMayHelp(t *testing.T) {
	for want, err := range map[int]error{
		exitcode.OK:        nil,
		exitcode.Failed:    errors.New("no"),
		exitcode.Config:    fmt.Errorf("no: %w", &source.Errors{}),
		exitcode.Transient: fmt.Errorf("no: %w", dbusapi.ErrCrowded),
		exitcode.Usage:     exitcode.With(exitcode.Usage, dbusapi.ErrCrowded),
	} {
		if got := Code(err); got != want {
			t.Errorf("%v ends with %d, want %d", err, got, want)
		}
	}
}
