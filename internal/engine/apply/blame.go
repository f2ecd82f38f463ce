package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// rebootError is an error that a reboot may help against, and nothing less.
type rebootError struct{ error }

func (e *rebootError) Unwrap() error { return e.error }

// unseenError is an answer that the GPUs are in use, with nobody to be seen who uses
// them.
type unseenError struct {
	error
	use runstate.Use
}

func (e *unseenError) Unwrap() error { return e.error }

const unseenCure = "Find what has a GPU open and shows no process: an open file that was handed to a socket or to a container's runtime, " +
	"a console or sound device on the GPU, another driver that shares its buffers; or reboot. dcm tries again when the driver counts fewer uses, " +
	"when the configuration changes, and at `dcm apply`; until then it restarts no client for it."

// whose finds out who is to blame for an error that the GPUs are in use. Those that
// can be seen are recorded, and waited for. With nobody to be seen:
//
// The driver's own count has it that nobody uses it but other modules: then it cannot
// be unloaded before the next boot, where dcm comes before them, and a reboot may
// help. A count of nothing at all contradicts the answer: that was true a moment ago,
// and another try may find it over.
//
// Otherwise somebody unseen uses them, or nobody knows. Neither a reboot nor a second
// try, with its restart of the clients, is justified.
func (r *run) whose(ctx context.Context, v partition.Vendor, err error) error {
	if gpu.NeedsReboot(err) && r.nobodyNow(ctx, v) {
		return &rebootError{err}
	}
	if !errors.Is(err, unix.EBUSY) || !gpu.IsTransient(err) {
		return err
	}
	u, look := r.node.Usage(context.WithoutCancel(ctx))
	if look != nil {
		return errors.Join(err, look)
	}
	blocking := gpu.Blockers(r.difference.Steps, r.difference.Devices, u.Holders)
	u = u.ForVendor(v)
	unload := gpu.InUse(err)
	switch {
	case len(blocking) > 0:
		r.rec.holders(Holders(blocking))
		return err
	case r.nobody(v, u) && unload && u.Count > 0:
		return &rebootError{fmt.Errorf("%w; it is used from within the kernel%s, and by no process", err, by(u.Modules))}
	case r.nobody(v, u):
		return err
	}
	return &unseenError{fmt.Errorf("%w; %s", err, unseenText(u)), Use(u)}
}

func by(modules []string) string {
	if len(modules) == 0 {
		return ""
	}
	return " by " + strings.Join(modules, ", ")
}

// unseenText says in plain words what nobody can be blamed for.
func unseenText(u gpu.Usage) string {
	var text []string
	if u.Unexplained() > 0 {
		text = append(text, fmt.Sprintf("something that cannot be seen holds the driver: of its use count of %d, %d is no process's that could be looked at", u.Count, u.Unexplained()))
	}
	if len(u.Orphans) > 0 {
		text = append(text, fmt.Sprintf("the driver's compute side lists process %d, which is not to be found", u.Orphans[0]))
	}
	if len(u.Uninspected) > 0 {
		text = append(text, (&gpu.PartialError{Uninspected: u.Uninspected}).Error())
	}
	if len(text) == 0 {
		text = append(text, "something that cannot be seen holds the driver: no process has a GPU open")
	}
	return strings.Join(text, "; ")
}

// Use converts to the report's form.
func Use(u gpu.Usage) runstate.Use {
	return runstate.Use{Counted: u.Counted, Unseen: u.Unexplained(), Lost: len(u.Orphans)}
}

// UseOf looks who uses the GPUs, for the report.
func UseOf(ctx context.Context, node Looker) (runstate.Use, error) {
	u, err := node.Usage(ctx)
	return Use(u), err
}

// nobody tells whether there is evidence that no process uses the vendor's GPUs:
// everybody was looked at, and the driver counts no more than it does by itself.
func (r *run) nobody(v partition.Vendor, u gpu.Usage) bool {
	return len(u.Uninspected) == 0 && u.ForVendor(v).Unused(r.rec.idleCount(v))
}

// nobodyAtAll is the same for the vendors of all the steps.
func (r *run) nobodyAtAll(steps partition.Steps, u gpu.Usage) bool {
	return !slices.ContainsFunc(steps, func(s partition.Step) bool { return !r.nobody(s.Kind.Vendor(), u) })
}

func (r *run) nobodyNow(ctx context.Context, v partition.Vendor) bool {
	u, err := r.node.Usage(context.WithoutCancel(ctx))
	return err == nil && r.nobody(v, u)
}

// idle notes what a driver counts that was loaded just now, before anybody else can
// have opened a GPU: a console's or a sound device's use of it from within.
func (r *run) idle(ctx context.Context, v partition.Vendor, err error) {
	if err != nil {
		return
	}
	u, err := r.node.Usage(context.WithoutCancel(ctx))
	if u = u.ForVendor(v); err == nil && len(u.Holders)+len(u.Uninspected) == 0 {
		r.rec.idle(v, u.Unexplained())
	}
}

// unsure is a refusal where there was no time to look at everybody, unless those who
// were looked at account for all that the driver counts. Those whom a security module
// hides it says nothing of: the driver refuses while one of them is there.
func unsure(steps partition.Steps, u gpu.Usage) error {
	var errs []error
	for i, s := range steps {
		v := s.Kind.Vendor()
		if !slices.ContainsFunc(steps[:i], func(before partition.Step) bool { return before.Kind.Vendor() == v }) {
			errs = append(errs, unsureOf(u.ForVendor(v)))
		}
	}
	return errors.Join(errs...)
}

func unsureOf(u gpu.Usage) error {
	late := slices.DeleteFunc(slices.Clone(u.Uninspected), func(p gpu.Uninspected) bool { return !p.TimedOut })
	if len(late) == 0 || u.Counted && u.Unexplained() == 0 && len(u.Orphans) == 0 {
		return nil
	}
	return fmt.Errorf("it cannot be told whether the GPUs are in use: %w", &gpu.PartialError{Uninspected: late})
}
