package apply

import (
	"errors"
	"fmt"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

// withPending corrects the result if writes timed out: a write cannot be cancelled, and the driver may
// carry it out later. The GPUs have their previous state until the driver does so. The daemon then
// detects the change.
func withPending(writes []gpu.PendingWrite, rec *Recorder, result runstate.Result, err error) (runstate.Result, error) {
	if len(writes) == 0 {
		return result, err
	}
	rec.record(func(run *runstate.Run) {
		for _, w := range writes {
			for i := range run.Steps {
				if s := &run.Steps[i]; s.GPU == w.GPU && strings.EqualFold(s.To, w.Mode) {
					s.UnderWay = true
				}
			}
		}
	})
	text := make([]string, len(writes))
	for i, w := range writes {
		text[i] = fmt.Sprintf("%s of %s", w.Mode, w.GPU)
	}
	still := fmt.Sprintf("a write timed out, and the driver may carry it out later: set %s", strings.Join(text, ", "))
	if err == nil {
		return runstate.Failed, errors.New(still)
	}
	if result == runstate.RolledBack || result == runstate.Partial {
		result = runstate.Failed
	}
	return result, fmt.Errorf("%w; %s", err, still)
}
