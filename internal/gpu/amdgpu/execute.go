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

// Execute runs steps that may run concurrently.
func (n *Node) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	if len(steps) > 0 && steps[0].Kind == partition.SwitchCompute {
		return n.Switch(ctx, steps, tell)
	}
	var errs []error
	for _, s := range steps {
		tell(s, true, nil)
		err := n.executeStep(ctx, s)
		tell(s, false, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (n *Node) executeStep(ctx context.Context, s partition.Step) error {
	switch s.Kind {
	case partition.RequestMemory:
		to, err := partition.ParseMemory(s.To)
		if err != nil {
			return err
		}
		return n.SetMemory(ctx, s.GPU, to)
	case partition.ReloadDriver:
		return n.Reload(ctx)
	}
	return fmt.Errorf("%q is not a step of AMD's", s)
}

// Switch runs compute switches concurrently and returns their errors joined in the order of
// the steps.
//
// Older drivers run one switch in the whole node at a time and fail the others with EBUSY
// (kgd2kfd_check_and_lock_kfd). So Switch retries transient failures once, one after the
// other. The busy timeout applies to all retries together.
//
// It calls report when a step starts and when it ends, in one call at a time.
func (n *Node) Switch(ctx context.Context, steps []partition.Step, report func(step partition.Step, started bool, err error)) error {
	s := &switchRun{node: n, report: report}
	errs, again := make([]error, len(steps)), make([]bool, len(steps))
	var first sync.WaitGroup
	until := time.Now().Add(n.busyTimeout)
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
	until = time.Now().Add(n.busyTimeout)
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
	node   *Node
	mu     sync.Mutex
	report func(partition.Step, bool, error)
}

func (s *switchRun) switchOne(ctx context.Context, step partition.Step, until time.Time) error {
	if step.Kind != partition.SwitchCompute {
		return fmt.Errorf("%q is not a compute switch", step)
	}
	to, err := partition.ParseCompute(step.To)
	if err != nil {
		return err
	}
	return s.node.setCompute(ctx, step.GPU, to, until)
}

func (s *switchRun) notify(step partition.Step, started bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report(step, started, err)
}
