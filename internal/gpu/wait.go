package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// ErrNoGPU means that the PCI bus has no GPU of a vendor of the node.
var ErrNoGPU = errors.New("no partitionable GPU on the PCI bus")

// noGPU is [ErrNoGPU] with the names of the vendors.
type noGPU struct{ vendors string }

func (e *noGPU) Error() string        { return "no " + e.vendors + " GPU on the PCI bus" }
func (e *noGPU) Is(target error) bool { return target == ErrNoGPU }

// NotReadyError lists the GPUs that their driver has not brought up.
type NotReadyError struct {
	GPUs []NotReady
	Err  error // why the wait ended, and what could not be read
}

// NotReady is a GPU that its driver has not brought up.
type NotReady struct {
	GPU    partition.Address
	Model  string
	Reason string
	hint   string
}

func (e *NotReadyError) Error() string {
	if len(e.GPUs) == 0 {
		return "cannot read the GPUs: " + e.Err.Error()
	}
	text := make([]string, len(e.GPUs))
	for i, l := range e.GPUs {
		text[i] = fmt.Sprintf("%s (%s): %s", l.GPU, l.Model, l.Reason)
	}
	return "GPUs not ready: " + strings.Join(text, "; ")
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *NotReadyError) Hint() string {
	if len(e.GPUs) > 0 && e.GPUs[0].hint != "" && !slices.ContainsFunc(e.GPUs, func(l NotReady) bool { return l.hint != e.GPUs[0].hint }) {
		return e.GPUs[0].hint
	}
	return "see the kernel log for the reason; check whether the driver is blacklisted"
}

// errNoMoreGPUs ends the wait for a GPU that the loaded driver does not bring up.
var errNoMoreGPUs = errors.New("the driver is loaded and brings up no further GPU")

// waitOptions control how a [Node] waits for drivers.
type waitOptions struct {
	pollInterval time.Duration // for a driver that is loading
	probeTimeout time.Duration // how long a loaded driver may show no progress before missing GPUs are given up; 0: forever
	events       Listener      // nil: poll only
}

// waiter is one wait for the drivers to bring up their GPUs.
type waiter struct {
	*bus
	waitOptions
	relevant func(subsystem, path string) bool

	found   []*Function // result of the last inspection
	devices []Device
	failed  NotReadyError
	changed time.Time // when a GPU has last come up
}

// wait inspects the devices again after each event, and after a change of the vendors'
// progress. It subscribes to events only if the first inspection finds a GPU missing, and
// then inspects again, since events before that are lost.
func (w *waiter) wait(ctx context.Context) ([]Device, error) {
	var events <-chan struct{}
	listening := w.events == nil
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.changed = time.Now()
	for {
		if done, err := w.inspect(ctx); done {
			return w.devices, err
		}
		if !listening {
			events, listening = w.events(ctx, w.relevant), true
			continue
		}
		if err := w.awaitChange(ctx, events); err != nil {
			w.failed.Err = errors.Join(w.failed.Err, err)
			return w.devices, &w.failed
		}
	}
}

// inspect reads the devices. done is true if all are ready, if waiting does not help, or if
// ctx has ended.
func (w *waiter) inspect(ctx context.Context) (done bool, err error) {
	found, err := sysfs.Within(ctx, w.functions)
	if ctx.Err() != nil {
		w.failed.Err = errors.Join(w.failed.Err, ctx.Err())
		return true, &w.failed
	}
	w.found, w.failed.Err = found, err
	if err != nil {
		return false, nil
	}
	w.devices = deviceList(found)
	if err := w.permanentError(found); err != nil {
		return true, err
	}
	w.failed.GPUs = w.notReady(found)
	return len(w.failed.GPUs) == 0, nil
}

// awaitChange returns nil when the devices should be inspected again: after an event, after a
// change of the progress, after 20 polls, or when ctx has ended. It returns errNoMoreGPUs if
// the driver makes no progress for the probe timeout.
func (w *waiter) awaitChange(ctx context.Context, events <-chan struct{}) error {
	tick := time.NewTicker(w.pollInterval)
	defer tick.Stop()
	before := w.progress()
	for range 20 {
		select {
		case <-events:
			w.changed = time.Now()
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := w.progress()
		if now.fingerprint != before.fingerprint {
			w.changed = time.Now()
			return nil
		}
		if w.probeTimeout > 0 && now.loaded && time.Since(w.changed) > w.probeTimeout {
			return errNoMoreGPUs
		}
	}
	return nil
}

// progress is the state of the GPUs that are missing; see [Inspector.Progress].
type progress struct {
	fingerprint string
	loaded      bool // their drivers are loaded
}

func (w *waiter) progress() progress {
	p := progress{loaded: true}
	for _, v := range w.vendors {
		var awaited []partition.Address
		for _, f := range ownedBy(v, w.found) {
			if slices.ContainsFunc(w.failed.GPUs, func(g NotReady) bool { return g.GPU == f.Address }) {
				awaited = append(awaited, f.Address)
			}
		}
		if len(awaited) == 0 {
			continue
		}
		fingerprint, loaded := v.Progress(awaited)
		p.fingerprint += fingerprint
		p.loaded = p.loaded && loaded
	}
	return p
}

// permanentError returns the error that waiting does not resolve.
func (w *waiter) permanentError(found []*Function) error {
	any := false
	var errs []error
	for _, f := range found {
		_, known := w.vendor(f.Vendor)
		any = any || known
		if e, ok := errors.AsType[interface {
			error
			Permanent() bool
		}](f.Err); ok && e.Permanent() {
			errs = append(errs, fmt.Errorf("cannot read %s: %w", f.Address, f.Err))
		}
	}
	if !any {
		return &noGPU{w.vendorNames()}
	}
	return errors.Join(errs...)
}

// notReady lists the GPUs that are not ready.
func (w *waiter) notReady(found []*Function) []NotReady {
	var missing []NotReady
	for _, v := range w.vendors {
		for _, f := range ownedBy(v, found) {
			if reason, hint := v.NotReady(*f); reason != "" {
				missing = append(missing, NotReady{f.Address, f.Model, reason, hint})
			}
		}
	}
	sorting.By(missing, func(a, b NotReady) int { return a.GPU.Compare(b.GPU) })
	return missing
}
