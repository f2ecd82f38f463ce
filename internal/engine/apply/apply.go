// Package apply is the sequence of dcm-apply.service: observe, plan, change, read back, and
// undo if a change fails.
//
// It must not import client units, D-Bus, the configuration format or the command line. The
// undo uses the planner too: it is a plan from the current state to the layout that was
// observed before the first change.
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

// Options are the settings of a run.
type Options struct {
	Rollback      bool                              // undo all changes after a failure; otherwise keep those that succeeded
	EachGPU       bool                              // with Rollback: each GPU succeeds or is undone by itself, if no step concerns others
	ReloadDriver  bool                              // the driver may be reloaded for a memory mode, and modules unloaded to switch MIG
	DeviceTimeout time.Duration                     // limit of all waits of the run for the driver to bring up its GPUs
	StepTimeout   time.Duration                     // limit of one request or one round of switches
	ReloadTimeout time.Duration                     // limit of a driver reload
	SettleDelay   time.Duration                     // before the last observation, after a step that the driver may revert
	Fits          func(after []partition.GPU) error // returns an error if the planned state is not allowed; may be nil
	May           func(partition.Address) bool      // returns whether a GPU may change; nil: each may
	Users         runstate.InstanceUsers            // for which the change was planned
	Later         func(partition.Address) bool      // returns whether a later run changes a GPU, which this one leaves as it is; nil: none
	Continuing    []string                          // active units that use only what stays; the change has not stopped them
	Load          bool                              // an earlier run may have left the driver unloaded, see [HalfReloaded]
}

// errInterrupted ends a run that got a stop request.
var errInterrupted = errors.New("a stop was requested before the run was finished")

// refusal is a reason to end a run before its first change.
type refusal struct {
	err       error
	hint      string
	transient bool
	reboot    bool
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// Run puts the profile on the node and returns the finished report, which it also published
// during the run. When ctx ends, the current step is finished, no further step begins, and the
// result is [runstate.Interrupted].
func Run(ctx context.Context, node Node, profile partition.Profile, opt Options, rec *Recorder) runstate.Run {
	r := &run{node: node, opt: opt, rec: rec}
	rec.begin(profile.Name)
	result, err := r.do(ctx, profile)
	result, err = r.left(r.finish(ctx, result, err))
	return rec.end(result, r.explain(err))
}

type run struct {
	node Node
	opt  Options
	rec  *Recorder

	difference Difference    // the plan
	more       bool          // later runs change other GPUs
	loaded     bool          // the run has loaded the driver
	waited     time.Duration // for GPUs that the driver did not bring up after its load

	back bool  // the run undoes its changes
	gone error // the GPUs that disappeared, as observed during the undo
}

func (r *run) do(ctx context.Context, profile partition.Profile) (runstate.Result, error) {
	if r.opt.Load {
		if err := r.load(ctx); err != nil {
			return runstate.Failed, err
		}
		r.rec.loaded()
		if err := r.loadModules(ctx); err != nil {
			return runstate.Failed, err
		}
	}
	devices, err := r.observe(ctx)
	if ctx.Err() != nil {
		return runstate.Interrupted, errInterrupted
	}
	if err != nil {
		return runstate.Refused, err
	}
	d, err := Compare(devices, profile)
	r.rec.observed(d)
	if err != nil {
		return runstate.Refused, &refusal{err: err}
	}
	if len(d.Steps) == 0 {
		return runstate.Unchanged, nil
	}
	if err := d.Judge(r.opt.Fits); err != nil {
		return runstate.Refused, err
	}
	alone := r.opt.Rollback && r.opt.EachGPU && d.SingleGPUs()
	var left *refusal
	if alone {
		if d, r.more = r.opt.postpone(d); len(d.Steps) == 0 {
			return runstate.Round, nil
		}
		if d, left, err = r.leave(ctx, d); err != nil {
			return runstate.Refused, err
		}
	}
	if err := r.opt.covers(d); err != nil {
		return runstate.Refused, err
	}
	if err := r.permitted(ctx, d); err != nil {
		return runstate.Refused, err
	}
	if err := r.unloadModules(ctx, d); err != nil {
		return runstate.Refused, err
	}
	r.difference = d
	before := partition.CurrentLayout(d.GPUs)
	r.rec.begins(d.Steps)
	if alone {
		return left.partial(r.round(r.eachGPU(ctx, d.Want, before, devices)))
	}
	err = r.converge(ctx, d.Want, devices)
	switch {
	case err == nil:
		return runstate.Applied, nil
	case errors.Is(err, errInterrupted):
		return runstate.Interrupted, err
	case !r.opt.Rollback:
		return runstate.Failed, err
	}
	return r.goBack(ctx, before, err)
}

// permitted returns a refusal if the run could not succeed.
func (r *run) permitted(ctx context.Context, d Difference) error {
	u, err := r.node.Use.Usage(ctx)
	if err != nil {
		return err
	}
	blocking := Holders(gpu.Blockers(d.Steps, d.Devices, u.Holders))
	if no := d.Refusal(r.opt.ReloadDriver, blocking); no != nil {
		if no.Transient {
			r.rec.holders(blocking)
		}
		return &refusal{err: errors.New(no.Text), hint: no.Hint, transient: no.Transient, reboot: !no.Transient && r.allUnused(d.Steps, u)}
	}
	return unsure(d.Steps, u)
}

// goBack undoes a failed run. The run ends with the error of the failed change, whatever the result
// of the undo.
func (r *run) goBack(ctx context.Context, before partition.Layout, cause error) (runstate.Result, error) {
	// A stop request must not leave the node between two layouts.
	ctx = context.WithoutCancel(ctx)
	r.rec.undoing()
	r.back = true
	err := r.load(ctx)
	if err == nil {
		// A GPU that the driver did not bring up may come up after the reload of the
		// undo. converge checks that.
		var devices []gpu.Device
		if devices, err = r.glance(ctx, cause); err == nil || len(devices) > 0 {
			err = r.converge(ctx, before, devices)
			err = errors.Join(err, r.gone)
		}
	}
	if err != nil {
		return runstate.Failed, fmt.Errorf("%w; the undo failed as well: %w", cause, err)
	}
	return runstate.RolledBack, cause
}

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
			return r.stuck(ctx, now[0], steps[0])
		}
	}
	if reverting {
		return r.settle(ctx, want)
	}
	return nil
}

// make executes one round of a plan. A stop request does not interrupt a round; it prevents
// the next one.
func (r *run) make(ctx context.Context, want partition.Layout, round partition.Steps) error {
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
		r.loaded = r.loaded || err == nil
		r.idle(ctx, round[0].Kind.Vendor(), err)
		return r.whose(ctx, round[0].Kind.Vendor(), err)
	case err != nil && round[0].Kind.Observable():
		// The report needs the state of the other GPUs.
		_, seen := r.replan(ctx, want)
		return errors.Join(r.whose(ctx, round[0].Kind.Vendor(), err), seen)
	}
	return err
}

// stuck returns the error of a step that succeeded without effect.
func (r *run) stuck(ctx context.Context, done, next partition.Step) error {
	if !done.Kind.Reloads() {
		return fmt.Errorf("all switches succeeded, but the GPUs do not have the wanted modes: still to do is %q", next)
	}
	return &refusal{
		err:  fmt.Errorf("the driver was reloaded, but the memory mode did not take effect: still to do is %q", next),
		hint: "see the kernel's log (journalctl -k -g " + r.driver(done.Kind.Vendor()) + "); the firmware may refuse the mode until a reboot",

		reboot: r.unusedNow(ctx, done.Kind.Vendor()),
	}
}

// driver returns the name of a vendor's driver, to search the kernel's log.
func (r *run) driver(v partition.Vendor) string {
	for _, t := range r.node.Driver.Traits() {
		if t.Vendor == v {
			return t.Driver
		}
	}
	return "drm"
}

// replan observes the GPUs and plans again.
func (r *run) replan(ctx context.Context, want partition.Layout) (partition.Steps, error) {
	devices, err := r.observe(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	gpus := gpu.Partitionable(devices)
	r.rec.seen(gpus)
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
			errs = append(errs, fmt.Errorf("%s is gone: the driver does not list it any more", a))
		}
	}
	return errors.Join(errs...)
}

// explain converts an error for the report.
func (r *run) explain(err error) *runstate.Error {
	if err == nil {
		return nil
	}
	e := Explain(err)
	return &e
}

// Load loads a driver that an earlier run left unloaded, for a run that ends before any
// change. A host without its driver is worse than one with the wrong configuration.
func Load(ctx context.Context, driver Driver, limit time.Duration, rec *Recorder) error {
	r := &run{node: Node{Driver: driver}, opt: Options{ReloadTimeout: limit}, rec: rec}
	if err := r.load(ctx); err != nil {
		return err
	}
	rec.loaded()
	return r.loadModules(ctx)
}

// HalfReloaded reports whether the last run of this boot ended between the unloading and the
// loading of the driver or another module, may have done so, or has not repaired an earlier such end. If a run is
// killed, its report may lack the start of a step, but has the plan, which is published before.
func HalfReloaded(last *runstate.Run, boot string) bool {
	if last == nil || last.Boot != boot {
		return false
	}
	return last.Unloaded || len(last.UnloadedModules) > 0 || slices.ContainsFunc(last.Steps, func(s runstate.Step) bool {
		begun := !s.Started.IsZero() || last.Result == runstate.Running
		return s.Kind == partition.ReloadDriver && begun && (s.Finished.IsZero() || s.Error != "")
	})
}

// Explain converts an error of this package or of package gpu: whether a retry may help, and
// what the administrator can do.
func Explain(err error) runstate.Error {
	out := runstate.Error{Text: err.Error(), Hint: gpu.Hint(err), Transient: gpu.IsTransient(err)}
	var no *refusal
	if errors.As(err, &no) {
		out.Transient = no.transient
		if no.hint != "" {
			out.Hint = no.hint
		}
	}
	if errors.Is(err, errInterrupted) {
		out.Transient = true
	}
	if u, ok := errors.AsType[*unseenError](err); ok {
		out.Unseen, out.Transient = &u.use, true
		if !errors.Is(err, gpu.ErrPartial) && !gpu.HeldInKernel(err) {
			out.Hint = unseenHint
		}
	}
	_, out.Reboot = errors.AsType[*rebootError](err)
	out.Reboot = out.Reboot || no != nil && no.reboot
	out.Transient = out.Transient && !out.Reboot
	return out
}
