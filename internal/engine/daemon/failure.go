package daemon

import (
	"errors"
	"fmt"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// Failure returns an error with a hint if the selected profile is not on the GPUs, and nil
// otherwise.
func Failure(s *runstate.State) error {
	if s.Error == nil {
		return fmt.Errorf("%s is %s; see dcm status", unitname.Daemon, s.Phase)
	}
	return errors.New(s.Error.Message())
}
