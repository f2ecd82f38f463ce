package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// rebootError is an error that only a reboot can help against.
type rebootError struct{ error }

func (e *rebootError) Unwrap() error { return e.error }

// unseenError is the error if the GPUs are in use but no process that uses them is visible.
type unseenError struct {
	error
	use runstate.Use
}

func (e *unseenError) Unwrap() error { return e.error }

const unseenHint = "find what uses a GPU without a visible process. It can be a file passed over a socket or to a container runtime, " +
	"a console or sound device, or a driver that shares buffers. Otherwise reboot. " +
	"dcm tries again when the driver's use count falls, when the configuration changes, and at 'dcm apply'. Until then it restarts no client"

// blame finds out what uses the GPUs.
type blame struct {
	use UseReader
	rec *Recorder
}

// whose finds the processes that caused a "busy" error. It records the visible ones, so that dcm
// waits for their end. If there are none:
//
// If the driver's use count shows that only other modules use it, it cannot be unloaded before
// the next boot, where dcm runs before them: a reboot may help. A count of zero contradicts
// the error: the use has ended, and a retry may succeed, unless the error names a module that
// holds the GPU without being counted.
//
// Otherwise an invisible process uses the GPUs, or the use is unknown. That justifies neither
// a reboot nor a retry with its restart of the clients.
func (b blame) whose(ctx context.Context, d Difference, v partition.Vendor, err error) error {
	if gpu.NeedsReboot(err) && b.unusedNow(ctx, v) {
		return &rebootError{err}
	}
	if !errors.Is(err, unix.EBUSY) || !gpu.IsTransient(err) {
		return err
	}
	all, look := b.use.Usage(context.WithoutCancel(ctx))
	if look != nil {
		return errors.Join(err, look)
	}
	blocking := gpu.Blockers(d.Steps, d.Devices, all.Holders)
	u := all.ForVendor(v)
	unload := gpu.InUse(err)
	switch {
	case len(blocking) > 0:
		b.rec.record(func(run *runstate.Run) { run.Holders = Holders(blocking) })
		if gpu.BusyNode(err) {
			return fmt.Errorf("%w; %s", err, inUseText(blocking))
		}
		return err
	case b.unused(u) && unload && u.Count > 0:
		return &rebootError{fmt.Errorf("%w; only the kernel uses it%s, and no process", err, by(u.Modules))}
	case b.unused(u) && gpu.HeldInKernel(err):
		return &refusal{err: err} // a retry fails until the module is unloaded
	case b.unused(u):
		return err
	}
	return &unseenError{fmt.Errorf("%w; %s", err, unseenText(u)), use(u.DriverUse)}
}

func by(modules []string) string {
	if len(modules) == 0 {
		return ""
	}
	return " by " + strings.Join(modules, ", ")
}

// unseenText describes a use that no visible process explains.
func unseenText(u gpu.VendorUsage) string {
	var text []string
	if u.Unexplained() > 0 {
		text = append(text, fmt.Sprintf("something that cannot be seen holds the driver: no inspected process explains %[2]d of its use count of %[1]d", u.Count, u.Unexplained()))
	}
	if len(u.Orphans) > 0 {
		text = append(text, fmt.Sprintf("the driver's compute part lists process %d, which has ended", u.Orphans[0]))
	}
	if len(u.Uninspected) > 0 {
		text = append(text, (&gpu.PartialError{Uninspected: u.Uninspected}).Error())
	}
	switch {
	case len(text) > 0:
	case len(u.Holders) > 0:
		text = append(text, "no process uses the GPU: something that cannot be seen holds the driver, or an older driver checks the whole node: "+inUseText(u.Holders))
	default:
		text = append(text, "something that cannot be seen holds the driver: no process has a GPU open")
	}
	return strings.Join(text, "; ")
}

// inUseText names the processes that use GPUs.
func inUseText(holders []gpu.Holder) string { return runstate.InUse(Holders(holders)).Text }

// use converts a driver's use to the report's form.
func use(d gpu.DriverUse) runstate.Use {
	return runstate.Use{Vendor: d.Vendor.Name(), Counted: d.Counted, Unseen: d.Unexplained(), Lost: len(d.Orphans)}
}

// UseNow returns the use in u of the driver that before belongs to.
func UseNow(before runstate.Use, u gpu.Usage) runstate.Use {
	for _, d := range u.Drivers {
		if d.Vendor.Name() == before.Vendor {
			return use(d)
		}
	}
	return runstate.Use{Vendor: before.Vendor}
}

// unused reports whether there is evidence that no process uses the vendor's GPUs: all
// processes were inspected, and the driver's count is that of an idle driver.
func (b blame) unused(u gpu.VendorUsage) bool {
	return len(u.Uninspected) == 0 && u.Unused(b.rec.Run().Idle[u.Vendor.String()])
}

// allUnused is unused for the vendors of all steps.
func (b blame) allUnused(steps partition.Steps, u gpu.Usage) bool {
	return !slices.ContainsFunc(steps, func(s partition.Step) bool { return !b.unused(u.ForVendor(s.Kind.Vendor())) })
}

func (b blame) unusedNow(ctx context.Context, v partition.Vendor) bool {
	u, err := b.use.Usage(context.WithoutCancel(ctx))
	return err == nil && b.unused(u.ForVendor(v))
}

// idle records the use count of a driver that was just loaded, before a process can have
// opened a GPU. It is the use by the kernel itself, such as a console or a sound device.
func (b blame) idle(ctx context.Context, v partition.Vendor, err error) {
	if err != nil {
		return
	}
	all, err := b.use.Usage(context.WithoutCancel(ctx))
	if u := all.ForVendor(v); err == nil && len(u.Holders)+len(u.Uninspected) == 0 {
		b.rec.record(func(run *runstate.Run) {
			run.Idle = maps.Clone(run.Idle)
			if run.Idle == nil {
				run.Idle = make(map[string]int)
			}
			run.Idle[v.String()] = u.Unexplained()
		})
	}
}

// unsure returns an [unseenError] if there was no time to inspect all processes, unless the
// inspected ones explain the driver's count. It cannot detect processes that a security module
// hides. While such a process uses a GPU, the driver refuses the change.
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

func unsureOf(u gpu.VendorUsage) error {
	late := slices.DeleteFunc(slices.Clone(u.Uninspected), func(p gpu.Uninspected) bool { return !p.TimedOut })
	if len(late) == 0 || u.Counted && u.Unexplained() == 0 && len(u.Orphans) == 0 {
		return nil
	}
	return &unseenError{fmt.Errorf("cannot determine whether the GPUs are in use: %w", &gpu.PartialError{Uninspected: late}), use(u.DriverUse)}
}
