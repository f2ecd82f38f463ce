package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// SingleGPUs reports whether each step changes one GPU only, and no module of all GPUs has to be
// unloaded.
func (d Difference) SingleGPUs() bool {
	return len(d.Modules()) == 0 && !slices.ContainsFunc(d.Steps, func(s partition.Step) bool { return !s.Kind.SingleGPU() })
}

// BlockedBy returns the GPUs whose steps the reported holders block.
func (d Difference) BlockedBy(holders []runstate.Holder) []partition.Address {
	var out []partition.Address
	for _, s := range d.Steps {
		blocks := func(h runstate.Holder) bool {
			return len(gpu.Blockers(partition.Steps{s}, d.Devices, []gpu.Holder{d.holder(h)})) > 0
		}
		if !slices.Contains(out, s.GPU) && slices.ContainsFunc(holders, blocks) {
			out = append(out, s.GPU)
		}
	}
	return out
}

// Without returns the difference without the changes of some GPUs, which stay as they are. All
// steps change one GPU only.
func (d Difference) Without(gpus []partition.Address) Difference {
	now := partition.CurrentLayout(d.GPUs)
	d.Want.Shapes = maps.Clone(d.Want.Shapes)
	for _, a := range gpus {
		if _, wanted := d.Want.Shapes[a]; wanted {
			d.Want.Shapes[a] = now.Shapes[a]
		}
	}
	d.Steps = slices.DeleteFunc(slices.Clone(d.Steps), func(s partition.Step) bool { return slices.Contains(gpus, s.GPU) })
	return d
}

// Only returns the difference with the changes of some GPUs; the others stay as they are.
func (d Difference) Only(gpus []partition.Address) Difference {
	var others []partition.Address
	for _, s := range d.Steps {
		if !slices.Contains(gpus, s.GPU) {
			others = append(others, s.GPU)
		}
	}
	return d.Without(others)
}

// postpone returns the difference without the GPUs that a later run changes, and whether there are any.
func (o Options) postpone(d Difference) (rest Difference, more bool) {
	var later []partition.Address
	for _, c := range d.Steps.Changes(d.GPUs) {
		if o.Later != nil && o.Later(c.GPU) {
			later = append(later, c.GPU)
		}
	}
	return d.Without(later), len(later) > 0
}

// round corrects the result of a run that later runs complete.
func (r *run) round(result runstate.Result, err error) (runstate.Result, error) {
	if err == nil && r.more {
		return runstate.Round, nil
	}
	return result, err
}

// choose returns the part of a plan that the run executes. left is why the run leaves GPUs as they are,
// nil if it leaves none. If later runs change all GPUs of the plan, the part is empty.
func (r *run) choose(ctx context.Context, d Difference) (part Difference, left *refusal, err error) {
	if err := d.Judge(r.opt.Fits); err != nil {
		return d, nil, err
	}
	if r.opt.alone(d) {
		if d, r.more = r.opt.postpone(d); len(d.Steps) == 0 {
			return d, nil, nil
		}
		if d, left, err = r.leave(ctx, d); err != nil {
			return d, nil, err
		}
	}
	return d, left, r.opt.covers(d)
}

// alone reports whether each GPU of a plan succeeds or is undone by itself.
func (o Options) alone(d Difference) bool { return o.Rollback && o.EachGPU && d.SingleGPUs() }

// leave returns the difference without the GPUs that cannot change now: a process holds them, or
// their users are not stopped. left is the reason, nil if there is none. If a process holds each of
// the GPUs that may change, the reason is the error.
func (r *run) leave(ctx context.Context, d Difference) (rest Difference, left *refusal, err error) {
	u, err := r.node.Use.Usage(ctx)
	if err != nil {
		return d, nil, err
	}
	blocking := Holders(gpu.Blockers(d.Steps, d.Devices, u.Holders))
	gpus := d.BlockedBy(blocking)
	if len(blocking) > 0 {
		no := runstate.InUse(blocking)
		left = &refusal{err: errors.New(no.Text), hint: no.Hint, transient: true}
	}
	if not := r.opt.unrequested(d); len(not) > 0 {
		gpus = slices.Compact(slices.Sorted(slices.Values(append(gpus, not...))))
		left = cmp.Or(left, notRequested(not[0]))
	}
	switch rest = d.Without(gpus); {
	case left == nil, len(rest.Steps) == 0 && len(blocking) == 0:
		return d, nil, nil // see covers
	case len(rest.Steps) == 0:
		r.rec.record(func(run *runstate.Run) { run.Holders = blocking })
		return d, nil, left
	}
	r.rec.leave(gpus, blocking, left)
	return rest, left, nil
}

// unrequested returns the GPUs of a plan that may not change: their users are not stopped.
func (o Options) unrequested(d Difference) []partition.Address {
	var out []partition.Address
	for _, c := range d.Steps.Changes(d.GPUs) {
		if o.May != nil && !o.May(c.GPU) {
			out = append(out, c.GPU)
		}
	}
	return out
}

// covers returns a refusal if the plan needs more than was requested.
func (o Options) covers(d Difference) error {
	if not := o.unrequested(d); len(not) > 0 {
		return notRequested(not[0])
	}
	if o.May != nil && len(d.Modules()) > 0 {
		return errModules
	}
	return nil
}

// errModules refuses a change of single GPUs that has to unload a module of all GPUs.
var errModules = &refusal{err: errors.New("a kernel module that serves all GPUs has to be unloaded, and the change is of single GPUs"), hint: "dcm plans again and retries", transient: true}

func notRequested(gpu partition.Address) *refusal {
	return &refusal{err: fmt.Errorf("%s: has to change too, and the change was not requested for it", gpu), hint: "dcm plans again and retries", transient: true}
}

// partial adds the reason why some GPUs were left as they are, nil if there is none, to a result.
func (e *refusal) partial(result runstate.Result, err error) (runstate.Result, error) {
	switch {
	case e == nil:
		return result, err
	case err == nil:
		return runstate.Partial, e
	}
	return result, fmt.Errorf("%w; %s", err, e)
}

// eachGPU makes a change in which each GPU succeeds or is undone by itself. It undoes the whole change
// if it is interrupted, or if an error belongs to no GPU, or to one that is already undone.
func (r *run) eachGPU(ctx context.Context, want, before partition.Layout, devices []gpu.Device) (runstate.Result, error) {
	want.Shapes = maps.Clone(want.Shapes)
	undone := make(map[partition.Address]bool)
	var cause error
	for {
		first := begun(r.rec.Run().Steps)
		err := r.converge(ctx, want, devices)
		if err == nil {
			break
		}
		cause = errors.Join(cause, err)
		now := failed(r.rec.Run().Steps, first)
		if errors.Is(err, errInterrupted) || len(now) == 0 || slices.ContainsFunc(now, func(a partition.Address) bool { return undone[a] }) {
			return r.goBack(ctx, before, cause)
		}
		for _, a := range now {
			undone[a] = true
			want.Shapes[a] = before.Shapes[a]
		}
		if devices, err = r.gpus.observe(context.WithoutCancel(ctx)); err != nil {
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

// leave records the GPUs that the run leaves as they are.
func (r *Recorder) leave(gpus []partition.Address, blocking []runstate.Holder, why error) {
	r.record(func(run *runstate.Run) {
		run.Holders = blocking
		for _, a := range gpus {
			gpuOf(run, a).Error = why.Error()
		}
	})
	r.log.With("gpu", gpus).Warn("leaving some GPUs as they are: " + why.Error())
}
