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
	r := newRun(node, opt, rec)
	rec.begin(profile.Name)
	result, err := r.do(ctx, profile)
	result, err = r.modules.finish(ctx, result, err)
	result, err = withPending(node.Executor.PendingWrites(), rec, result, err)
	if err == nil {
		return rec.end(result, nil)
	}
	e := Explain(err)
	return rec.end(result, &e)
}

type run struct {
	node    Node
	opt     Options
	rec     *Recorder
	gpus    observer
	modules modules
	blame   blame

	difference Difference // the plan
	more       bool       // later runs change other GPUs

	back bool  // the run undoes its changes
	gone error // the GPUs that disappeared, as observed during the undo
}

func newRun(node Node, opt Options, rec *Recorder) *run {
	return &run{
		node: node, opt: opt, rec: rec,
		gpus: observer{node: node, opt: opt, rec: rec}, modules: modules{node.Modules, opt.ReloadTimeout, rec}, blame: blame{node.Use, rec},
	}
}

func (r *run) do(ctx context.Context, profile partition.Profile) (runstate.Result, error) {
	if r.opt.Load {
		if err := r.reload(ctx); err != nil {
			return runstate.Failed, err
		}
	}
	devices, err := r.gpus.observe(ctx)
	if ctx.Err() != nil {
		return runstate.Interrupted, errInterrupted
	}
	if err != nil {
		return runstate.Refused, err
	}
	d, err := Compare(devices, profile)
	r.rec.record(func(run *runstate.Run) { run.GPUs = gpusBefore(d) })
	if err != nil {
		return runstate.Refused, &refusal{err: err}
	}
	if len(d.Steps) == 0 {
		return runstate.Unchanged, nil
	}
	d, left, err := r.choose(ctx, d)
	if err == nil && len(d.Steps) == 0 {
		return runstate.Round, nil
	}
	if err == nil {
		err = r.permitted(ctx, d)
	}
	if err == nil {
		err = r.modules.unload(ctx, d)
	}
	if err != nil {
		return runstate.Refused, err
	}
	r.difference = d
	return r.change(ctx, devices, left)
}

// reload loads what an earlier run has left unloaded.
func (r *run) reload(ctx context.Context) error {
	if err := r.gpus.load(ctx); err != nil {
		return err
	}
	r.rec.record(func(run *runstate.Run) { run.Unloaded = false })
	return r.modules.load(ctx)
}

// change executes the plan, and undoes it if it fails. left is why some GPUs do not change, nil if all
// do.
func (r *run) change(ctx context.Context, devices []gpu.Device, left *refusal) (runstate.Result, error) {
	before := partition.CurrentLayout(r.difference.GPUs)
	r.rec.begins(r.difference.Steps)
	if r.opt.alone(r.difference) {
		return left.partial(r.round(r.eachGPU(ctx, r.difference.Want, before, devices)))
	}
	err := r.converge(ctx, r.difference.Want, devices)
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
			r.rec.record(func(run *runstate.Run) { run.Holders = blocking })
		}
		return &refusal{err: errors.New(no.Text), hint: no.Hint, transient: no.Transient, reboot: !no.Transient && r.blame.allUnused(d.Steps, u)}
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
	err := r.gpus.load(ctx)
	if err == nil {
		// A GPU that the driver did not bring up may come up after the reload of the
		// undo. converge checks that.
		var devices []gpu.Device
		if devices, err = r.gpus.glance(ctx, cause); err == nil || len(devices) > 0 {
			err = r.converge(ctx, before, devices)
			err = errors.Join(err, r.gone)
		}
	}
	if err != nil {
		return runstate.Failed, fmt.Errorf("%w; the undo failed as well: %w", cause, err)
	}
	return runstate.RolledBack, cause
}

// Load loads a driver that an earlier run left unloaded, for a run that ends before any
// change. A host without its driver is worse than one with the wrong configuration.
func Load(ctx context.Context, d drivers, limit time.Duration, rec *Recorder) error {
	return newRun(Node{Driver: d, Modules: d}, Options{ReloadTimeout: limit}, rec).reload(ctx)
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
	out := runstate.Error{Text: err.Error(), Hint: gpu.Hint(err), Transient: gpu.IsTransient(err), Gone: gpu.Gone(err)}
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
