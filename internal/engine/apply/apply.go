// Package apply is the sequence of dcm-apply.service: observe, plan, set, read
// back, and go back to what was before if it cannot be finished.
//
// It knows no client units, no D-Bus, no configuration format and no command
// line. Its undo is its own planner: going back is a plan from what is seen now
// to the layout seen before the first change.
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

// Node is what a run needs of the machine. [gpu.Node] is one.
type Node interface {
	// Wait returns the devices once the driver has brought them up.
	Wait(ctx context.Context) ([]gpu.Device, error)
	// WaitAfterLoad is Wait after a load, and gives up the GPUs that the driver leaves alone.
	WaitAfterLoad(ctx context.Context) ([]gpu.Device, error)
	// Devices returns the devices as they are.
	Devices(ctx context.Context) ([]gpu.Device, error)
	Looker
	// Execute carries out steps that may be made at once, and reads each one back. It
	// tells of each when it starts and, with its error, when it has its end.
	Execute(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error
	// Loaded reports whether the drivers are loaded, and Load loads them.
	Loaded() bool
	Load(ctx context.Context) error
	// Traits are those of the vendors whose GPUs it may have.
	Traits() []gpu.Traits
	// PendingWrites lists the writes that were given up and that a driver still has.
	PendingWrites() []gpu.PendingWrite
}

// Options are the run's settings.
type Options struct {
	Rollback      bool                              // on failure of one GPU go back to what was; otherwise keep what succeeded
	ReloadDriver  bool                              // allowed to reload the driver for a memory mode
	DeviceTimeout time.Duration                     // how long to wait for the driver to bring its GPUs up
	StepTimeout   time.Duration                     // how long one request or one round of switches may take
	ReloadTimeout time.Duration                     // how long a driver reload may take
	Fits          func(after []partition.GPU) error // why the GPUs must not become so; nil: nobody minds
	Load          bool                              // an earlier run may have left the driver unloaded, see [HalfReloaded]
}

// errInterrupted ends a run that was told to stop.
var errInterrupted = errors.New("told to stop before the work was finished")

// refusal is a reason to touch nothing.
type refusal struct {
	err       error
	cure      string
	transient bool
	reboot    bool
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// Run brings the node to the profile and returns the finished report, which it
// has also published along the way. When ctx ends, the step under way is
// finished, nothing further is begun, and the result is [runstate.Interrupted].
func Run(ctx context.Context, node Node, profile partition.Profile, opt Options, rec *Recorder) runstate.Run {
	r := &run{node: node, opt: opt, rec: rec}
	rec.begin(profile.Name)
	result, err := r.left(r.do(ctx, profile))
	return rec.end(result, r.explain(err))
}

type run struct {
	node Node
	opt  Options
	rec  *Recorder

	difference Difference    // what is to be done
	loaded     bool          // the run has loaded the driver
	waited     time.Duration // for GPUs that the driver did not bring up then

	back bool  // going back
	gone error // the GPUs that are gone, as seen on the way back
}

func (r *run) do(ctx context.Context, profile partition.Profile) (runstate.Result, error) {
	if r.opt.Load {
		if err := r.load(ctx); err != nil {
			return runstate.Failed, err
		}
		r.rec.loaded()
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
	if err := r.permitted(ctx, d); err != nil {
		return runstate.Refused, err
	}
	r.difference = d
	before := partition.CurrentLayout(d.GPUs)
	r.rec.begins(d.Steps)
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

// observe waits for the driver, within the device timeout. Of that there is one for
// the whole run: GPUs that do not come up after the load keep the clients waiting
// for no longer, however often the driver is loaded again on the way back.
func (r *run) observe(ctx context.Context) ([]gpu.Device, error) {
	if !r.loaded {
		ctx, cancel := context.WithTimeout(ctx, r.opt.DeviceTimeout)
		defer cancel()
		return r.node.Wait(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, max(r.opt.DeviceTimeout-r.waited, leastWait))
	defer cancel()
	began := time.Now()
	devices, err := r.node.WaitAfterLoad(ctx)
	if err != nil {
		r.waited += time.Since(began)
	}
	return devices, err
}

// leastWait is for one look, when the time to wait is used up.
const leastWait = time.Second

// glance returns the devices for the way back. What has just been waited for in vain
// is not waited for again.
func (r *run) glance(ctx context.Context, cause error) ([]gpu.Device, error) {
	if _, late := errors.AsType[*gpu.NotReadyError](cause); !late {
		return r.observe(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.opt.StepTimeout)
	defer cancel()
	return r.node.Devices(ctx)
}

// load loads a driver that a reload has left unloaded.
func (r *run) load(ctx context.Context) error {
	if r.node.Loaded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opt.ReloadTimeout)
	defer cancel()
	r.loaded = true
	return r.node.Load(ctx)
}

// permitted refuses a run before its first change, when it could not succeed.
func (r *run) permitted(ctx context.Context, d Difference) error {
	u, err := r.node.Usage(ctx)
	if err != nil {
		return err
	}
	blocking := Holders(gpu.Blockers(d.Steps, d.Devices, u.Holders))
	if no := d.Refusal(r.opt.ReloadDriver, blocking); no != nil {
		if no.Transient {
			r.rec.holders(blocking)
		}
		return &refusal{err: errors.New(no.Text), cure: no.Cure, transient: no.Transient, reboot: !no.Transient && r.nobodyAtAll(d.Steps, u)}
	}
	if err := unsure(d.Steps, u); err != nil {
		return &unseenError{err, Use(u)}
	}
	return nil
}

// goBack undoes a failed run. The failure stays the run's error, whatever the
// way back brings.
func (r *run) goBack(ctx context.Context, before partition.Layout, cause error) (runstate.Result, error) {
	// A stop request must not leave the node between two layouts.
	ctx = context.WithoutCancel(ctx)
	r.rec.undoing()
	r.back = true
	err := r.load(ctx)
	if err == nil {
		// A GPU that the driver has not brought up may come up with the reload that
		// the way back is. converge judges.
		var devices []gpu.Device
		if devices, err = r.glance(ctx, cause); err == nil || len(devices) > 0 {
			err = r.converge(ctx, before, devices)
			err = errors.Join(err, r.gone)
		}
	}
	if err != nil {
		return runstate.Failed, fmt.Errorf("%w; going back failed as well: %w", cause, err)
	}
	return runstate.RolledBack, cause
}

// converge takes the GPUs from what devices shows to the layout wanted. It has
// succeeded only when a fresh observation leaves nothing to plan.
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
	for len(steps) > 0 {
		now, then := steps.NextBatch()
		if err := r.make(ctx, want, now); err != nil {
			return err
		}
		if steps = then; !now[0].Kind.Observable() {
			continue
		}
		if steps, err = r.replan(ctx, want); err != nil {
			return err
		}
		if len(steps) > 0 && !steps[0].Kind.Follows(now[0].Kind) {
			return r.stuck(ctx, now[0], steps[0])
		}
	}
	return nil
}

// make makes one round of a plan. A stop request never cuts a round short, it
// prevents the next one.
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
	err := r.node.Execute(within, round, r.rec.step)
	switch {
	case round.Reloads():
		r.loaded = r.loaded || err == nil
		r.idle(ctx, round[0].Kind.Vendor(), err)
		return r.whose(ctx, round[0].Kind.Vendor(), err)
	case err != nil && round[0].Kind.Observable():
		// What the others became is worth telling.
		_, seen := r.replan(ctx, want)
		return errors.Join(r.whose(ctx, round[0].Kind.Vendor(), err), seen)
	}
	return err
}

// stuck is the error of a step that has succeeded, and did not do what it should.
func (r *run) stuck(ctx context.Context, done, next partition.Step) error {
	if !done.Kind.Reloads() {
		return fmt.Errorf("after all switches had succeeded the GPUs were seen otherwise: still to do is %q", next)
	}
	return &refusal{
		err:  fmt.Errorf("the driver was reloaded, but the memory mode did not take effect: still to do is %q", next),
		cure: "see the kernel's log (journalctl -k -g " + r.driver(done.Kind.Vendor()) + "); the firmware may refuse the mode until a reboot",

		reboot: r.nobodyNow(ctx, done.Kind.Vendor()),
	}
}

// driver is the name of a vendor's, by which the kernel's log is searched.
func (r *run) driver(v partition.Vendor) string {
	for _, t := range r.node.Traits() {
		if t.Vendor == v {
			return t.Driver
		}
	}
	return "drm"
}

// replan observes again and plans from there.
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

// lost tells of GPUs that are gone. On the way back it is noted, and the others go
// on: half of a node in a mode that nobody wants is no help.
func (r *run) lost(want partition.Layout, gpus []partition.GPU) error {
	err := missing(want, gpus)
	if r.back {
		r.gone = err
		return nil
	}
	return err
}

// missing tells of GPUs that were there before and are gone.
func missing(want partition.Layout, gpus []partition.GPU) error {
	there := partition.CurrentLayout(gpus)
	var errs []error
	for a := range want.Shapes {
		if _, ok := there.Shapes[a]; !ok {
			errs = append(errs, fmt.Errorf("%s is gone: the driver does not show it any more", a))
		}
	}
	return errors.Join(errs...)
}

// explain turns an error into what the report says of it.
func (r *run) explain(err error) *runstate.Error {
	if err == nil {
		return nil
	}
	e := Explain(err)
	return &e
}

// Load loads a driver that an earlier run has left unloaded, for a run that has
// nothing else to do, or cannot tell what: a host without its driver is the worst
// of all ends, whatever the configuration says.
func Load(ctx context.Context, node Node, limit time.Duration, rec *Recorder) error {
	r := &run{node: node, opt: Options{ReloadTimeout: limit}, rec: rec}
	if err := r.load(ctx); err != nil {
		return err
	}
	rec.loaded()
	return nil
}

// HalfReloaded reports whether the run ended, in whatever way, between the
// unloading and the loading of the driver or may have, or has not mended that of an
// earlier one. A killed run may not have come to tell that it had begun: that a
// reload was planned is told before.
func HalfReloaded(last *runstate.Run, boot string) bool {
	if last == nil || last.Boot != boot {
		return false
	}
	return last.Unloaded || slices.ContainsFunc(last.Steps, func(s runstate.Step) bool {
		begun := !s.Started.IsZero() || last.Result == runstate.Running
		return s.Kind == partition.ReloadDriver && begun && (s.Finished.IsZero() || s.Error != "")
	})
}

// Explain says of an error from this package or from gpu whether trying again
// may help, and what an operator can do.
func Explain(err error) runstate.Error {
	out := runstate.Error{Text: err.Error(), Cure: gpu.Hint(err), Transient: gpu.IsTransient(err)}
	var no *refusal
	if errors.As(err, &no) {
		out.Transient = no.transient
		if no.cure != "" {
			out.Cure = no.cure
		}
	}
	if errors.Is(err, errInterrupted) {
		out.Transient = true
	}
	if u, ok := errors.AsType[*unseenError](err); ok {
		out.Unseen, out.Transient = &u.use, true
		if !errors.Is(err, gpu.ErrPartial) {
			out.Cure = unseenCure
		}
	}
	_, out.Reboot = errors.AsType[*rebootError](err)
	out.Reboot = out.Reboot || no != nil && no.reboot
	out.Transient = out.Transient && !out.Reboot
	return out
}
