package apply

import (
	"errors"
	"fmt"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

// left corrects the result if a write timed out: a write cannot be cancelled, and the driver may
// carry it out later. The GPUs have their previous state until the driver does so. The daemon then
// detects the change.
func (r *run) left(result runstate.Result, err error) (runstate.Result, error) {
	writes := r.node.Executor.PendingWrites()
	if len(writes) == 0 {
		return result, err
	}
	r.rec.underWay(writes)
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

// underWay marks the steps whose writes are pending in the driver.
func (r *Recorder) underWay(writes []gpu.PendingWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range writes {
		for i := range r.run.Steps {
			if s := &r.run.Steps[i]; s.GPU == w.GPU && s.To == w.Mode {
				s.UnderWay = true
			}
		}
	}
}
