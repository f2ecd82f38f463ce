package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// converge changes the GPUs from the observed state to a layout. It succeeds only if a new
// observation leaves nothing to plan.
func (r *run) converge(ctx context.Context, want partition.Layout, devices []gpu.Device) error {
	gpus := gpu.Partitionable(devices)
	steps, err := partition.Plan(want, gpus)
	if err == nil && !steps.Reloads() {
		err = r.lost(want, gpus)
	}
	if err != nil {
		return err
	}
	r.rec.planned(steps)
	reverting := false
	for len(steps) > 0 {
		now, then := steps.NextBatch()
		reverting = reverting || slices.ContainsFunc(now, partition.Step.MayRevert)
		again, err := r.attempt(ctx, want, now)
		if err != nil {
			return err
		}
		if steps = then; !now[0].Kind.Observable() {
			continue
		}
		if steps, err = r.replan(ctx, want); err != nil {
			return err
		}
		if !again && len(steps) > 0 && !steps[0].Kind.Follows(now[0].Kind) {
			return r.stuck(ctx, now[0], steps)
		}
	}
	if reverting {
		return r.settle(ctx, want)
	}
	return nil
}

// attempt executes one round of a plan. It reports whether the round has failed in a way that a new plan
// resolves.
func (r *run) attempt(ctx context.Context, want partition.Layout, round partition.Steps) (again bool, err error) {
	first := begun(r.rec.Run().Steps)
	if err := r.make(ctx, want, round, first); err != nil {
		err = r.noRoom(ctx, want, round, first, err)
		return err == nil, err
	}
	return false, nil
}

// make executes one round of a plan. A stop request does not interrupt a round; it prevents
// the next one. The steps of the round are recorded from the index first.
func (r *run) make(ctx context.Context, want partition.Layout, round partition.Steps, first int) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	limit := r.opt.StepTimeout
	if round.Reloads() {
		limit = r.opt.ReloadTimeout
	}
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := r.node.Executor.Execute(within, round, r.rec.step)
	switch {
	case round.Reloads():
		r.gpus.loaded = r.gpus.loaded || err == nil
		r.blame.idle(ctx, round[0].Kind.Vendor(), err)
		return r.blame.whose(ctx, r.difference, round[0].Kind.Vendor(), err)
	case err != nil && round[0].Kind.Observable():
		// The report needs the state of the other GPUs.
		_, seen := r.replan(ctx, want)
		again := r.boundAgain(failed(r.rec.Run().Steps, first)...)
		return errors.Join(r.blame.whose(ctx, r.difference, round[0].Kind.Vendor(), err), again, seen)
	}
	return err
}

// stuck returns the error of a step that succeeded without effect. left are the remaining steps.
func (r *run) stuck(ctx context.Context, done partition.Step, left partition.Steps) error {
	if !done.Kind.Reloads() {
		if err := r.boundAgain(left.GPUs()...); err != nil {
			return err
		}
		return fmt.Errorf("all switches succeeded, but the GPUs do not have the wanted modes; remaining step: %q", left[0])
	}
	return &refusal{
		err:  fmt.Errorf("the driver was reloaded, but the memory mode did not take effect; remaining step: %q", left[0]),
		hint: "see the kernel's log (journalctl -k -g " + driverName(r.node.Driver, done.Kind.Vendor()) + "); the firmware may refuse the mode until a reboot",

		reboot: r.blame.unusedNow(ctx, done.Kind.Vendor()),
	}
}

// replan observes the GPUs and plans again.
func (r *run) replan(ctx context.Context, want partition.Layout) (partition.Steps, error) {
	devices, err := r.gpus.observe(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	gpus := gpu.Partitionable(devices)
	r.rec.record(func(run *runstate.Run) {
		for _, g := range gpus {
			if into := gpuOf(run, g.Address); into != nil {
				into.Now = g.Shape()
			}
		}
	})
	steps, err := partition.Plan(want, gpus)
	if err == nil {
		err = r.lost(want, gpus)
	}
	if err == nil {
		r.rec.planned(steps)
	}
	return steps, err
}

// lost returns an error for GPUs that disappeared. During the undo it only records them, since
// the other GPUs must not stay half changed.
func (r *run) lost(want partition.Layout, gpus []partition.GPU) error {
	err := missing(want, gpus)
	if r.back {
		r.gone = err
		return nil
	}
	return err
}

// missing returns an error for each GPU of the layout that no longer exists.
func missing(want partition.Layout, gpus []partition.GPU) error {
	there := partition.CurrentLayout(gpus)
	var errs []error
	for a := range want.Shapes {
		if _, ok := there.Shapes[a]; !ok {
			errs = append(errs, goneError(a))
		}
	}
	return errors.Join(errs...)
}

// goneError is a GPU that disappeared during the run.
type goneError partition.Address

func (e goneError) Error() string {
	return string(e) + " is gone: the driver does not list it any more"
}

func (e goneError) Gone() partition.Address { return partition.Address(e) }

// boundAgainError is a GPU that lost its mode during the run, since its driver was bound to it again.
type boundAgainError partition.Address

func (e boundAgainError) Error() string {
	return string(e) + " lost its mode during the change: it was removed and found again, or its driver was bound to it again"
}

func (e boundAgainError) Gone() partition.Address { return partition.Address(e) }

// boundAgain returns an error if one of the GPUs was bound again since the observation before the last one.
func (r *run) boundAgain(among ...partition.Address) error {
	for _, a := range among {
		if slices.Contains(r.gpus.again, a) {
			return boundAgainError(a)
		}
	}
	return nil
}

// settle observes the GPUs once more after the settle delay, and returns an error if the
// driver has reverted a step that it reported as successful. A stop request shortens the delay.
func (r *run) settle(ctx context.Context, want partition.Layout) error {
	if r.opt.SettleDelay == 0 {
		return nil
	}
	select {
	case <-time.After(r.opt.SettleDelay):
	case <-ctx.Done():
	}
	steps, err := r.replan(ctx, want)
	if err != nil || len(steps) == 0 {
		return err
	}
	if err = r.boundAgain(steps.GPUs()...); err == nil {
		err = fmt.Errorf("the driver reported success, and has reverted it within %v; remaining step: %q", r.opt.SettleDelay, steps[0])
	}
	return err
}

// driverName returns the name of a vendor's driver, to search the kernel's log.
func driverName(d Driver, v partition.Vendor) string {
	for _, t := range d.Traits() {
		if t.Vendor == v {
			return t.Driver
		}
	}
	return "drm"
}
