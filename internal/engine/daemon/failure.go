package daemon

import (
	"errors"
	"fmt"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// Failure is what keeps the selected profile from the GPUs, with its hint.
func Failure(s *runstate.State) error {
	if s.Error == nil {
		return fmt.Errorf("%s is %s; see dcm status", unitname.Daemon, s.Phase)
	}
	return errors.New(s.Error.Message())
}
