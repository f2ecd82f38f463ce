package apply

import (
	"context"
	"errors"
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// singleGPUs reports whether each step changes one GPU only.
func singleGPUs(steps partition.Steps) bool {
	return !slices.ContainsFunc(steps, func(s partition.Step) bool { return !s.Kind.SingleGPU() })
}

// eachGPU makes a change in which each GPU succeeds or is undone by itself. It undoes the whole change
// if it is interrupted, or if an error belongs to no GPU, or to one that is already undone.
func (r *run) eachGPU(ctx context.Context, want, before partition.Layout, devices []gpu.Device) (runstate.Result, error) {
	want.Shapes = maps.Clone(want.Shapes)
	undone := make(map[partition.Address]bool)
	var cause error
	for {
		begun := r.rec.begun()
		err := r.converge(ctx, want, devices)
		if err == nil {
			break
		}
		cause = errors.Join(cause, err)
		failed := r.rec.failed(begun)
		if errors.Is(err, errInterrupted) || len(failed) == 0 || slices.ContainsFunc(failed, func(a partition.Address) bool { return undone[a] }) {
			return r.goBack(ctx, before, cause)
		}
		for _, a := range failed {
			undone[a] = true
			want.Shapes[a] = before.Shapes[a]
		}
		if devices, err = r.observe(context.WithoutCancel(ctx)); err != nil {
			return r.goBack(ctx, before, errors.Join(cause, err))
		}
	}
	switch {
	case cause == nil:
		return runstate.Applied, nil
	case slices.ContainsFunc(r.difference.Steps, func(s partition.Step) bool { return !undone[s.GPU] }):
		return runstate.Partial, cause
	}
	return runstate.RolledBack, cause
}

// begun returns the number of steps that have begun.
func (r *Recorder) begun() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(r.run.Steps), func(s runstate.Step) bool { return s.Started.IsZero() }))
}

// failed returns the GPUs with a failed step, each once, without those of the first steps.
func (r *Recorder) failed(first int) []partition.Address {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []partition.Address
	for _, s := range r.run.Steps[min(first, len(r.run.Steps)):] {
		if s.Error != "" && !slices.Contains(out, s.GPU) {
			out = append(out, s.GPU)
		}
	}
	return out
}
