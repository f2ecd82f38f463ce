package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// switchAll runs compute switches concurrently and returns their errors joined in the order of
// the steps.
//
// Older drivers run one switch in the whole node at a time and fail the others with EBUSY
// (kgd2kfd_check_and_lock_kfd). So switchAll retries transient failures once, one after the
// other. The busy timeout applies to all retries together.
//
// It calls onStep when a step starts and when it ends, in one call at a time.
func (m *modeSetter) switchAll(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error {
	s := &switchRun{modes: m, onStep: onStep}
	errs, again := make([]error, len(steps)), make([]bool, len(steps))
	var first sync.WaitGroup
	until := m.busy.until()
	for i, step := range steps {
		first.Go(func() {
			s.notify(step, true, nil)
			errs[i] = s.switchOne(ctx, step, until)
			if again[i] = IsTransient(errs[i]) && ctx.Err() == nil; !again[i] {
				s.notify(step, false, errs[i])
			}
		})
	}
	first.Wait()
	until = m.busy.until()
	for i, step := range steps {
		if !again[i] {
			continue
		}
		if ctx.Err() == nil {
			errs[i] = s.switchOne(ctx, step, until)
		}
		s.notify(step, false, errs[i])
	}
	return errors.Join(errs...)
}

type switchRun struct {
	modes  *modeSetter
	mu     sync.Mutex
	onStep gpu.StepFunc
}

func (s *switchRun) switchOne(ctx context.Context, step partition.Step, until time.Time) error {
	if step.Kind != partition.SwitchCompute {
		return fmt.Errorf("%q is not a compute switch", step)
	}
	to, err := partition.ParseCompute(step.To)
	if err != nil {
		return err
	}
	return s.modes.setCompute(ctx, step.GPU, to, until)
}

func (s *switchRun) notify(step partition.Step, started bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onStep(step, started, err)
}
