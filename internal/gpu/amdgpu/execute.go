package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// executor changes the GPUs. It is a [gpu.Executor].
type executor struct {
	modes  *modeSetter
	module *module
}

// Execute implements [gpu.Executor].
func (x executor) Execute(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error {
	if len(steps) > 0 && steps[0].Kind == partition.SwitchCompute {
		return x.modes.switchAll(ctx, steps, onStep)
	}
	var errs []error
	for _, s := range steps {
		onStep(s, true, nil)
		err := x.execute(ctx, s)
		onStep(s, false, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (x executor) execute(ctx context.Context, s partition.Step) error {
	switch s.Kind {
	case partition.RequestMemory:
		to, err := partition.ParseMemory(s.To)
		if err != nil {
			return err
		}
		return x.modes.setMemory(ctx, s.GPU, to)
	case partition.SetAllocation:
		to, err := partition.ParseAllocation(s.To)
		if err != nil {
			return err
		}
		return x.modes.setSetting(ctx, s.GPU, allocationFile, strings.ToUpper(string(to)))
	case partition.SetIsolation:
		return x.modes.setIsolation(ctx, s.GPU, partition.Isolation(s.To))
	case partition.ReloadDriver:
		return x.module.reload(ctx)
	}
	return fmt.Errorf("%q is not a step for AMD GPUs", s)
}

// Explain returns [Hint] and [IsTransient].
func (executor) Explain(err error) (hint string, transient bool) { return Hint(err), IsTransient(err) }
