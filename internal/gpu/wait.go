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
)

// ErrNoGPU says that there is no GPU of a maker that the node knows on the PCI bus.
var ErrNoGPU = errors.New("there is no GPU on the PCI bus that could be partitioned")

// noGPU is [ErrNoGPU] with the makers' names.
type noGPU struct{ makers string }

func (e *noGPU) Error() string        { return "there is no " + e.makers + " GPU on the PCI bus" }
func (e *noGPU) Is(target error) bool { return target == ErrNoGPU }

// LateError says which GPUs their driver has not brought up.
type NotReadyError struct {
	GPUs []NotReady
	Err  error // why waiting ended, and what could not be read
}

// NotReady is one of them.
type NotReady struct {
	GPU    partition.Address
	Model  string
	Reason string
	hint   string
}

func (e *NotReadyError) Error() string {
	if len(e.GPUs) == 0 {
		return "cannot look at the GPUs: " + e.Err.Error()
	}
	text := make([]string, len(e.GPUs))
	for i, l := range e.GPUs {
		text[i] = fmt.Sprintf("%s (%s): %s", l.GPU, l.Model, l.Reason)
	}
	return "the driver has not brought every GPU up: " + strings.Join(text, "; ")
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// Cure is what to do about it.
func (e *NotReadyError) Hint() string {
	if len(e.GPUs) > 0 && e.GPUs[0].hint != "" && !slices.ContainsFunc(e.GPUs, func(l NotReady) bool { return l.hint != e.GPUs[0].hint }) {
		return e.GPUs[0].hint
	}
	return "See the kernel log for why the driver did not bring them up, and whether it is blacklisted."
}

// errSettled ends the wait for a GPU that the driver has left alone.
var errNoMoreGPUs = errors.New("the driver was loaded, and has brought up no other GPU since")

// Wait returns the devices once their drivers have brought every GPU up that may be
// partitioned, or [ErrNoGPU] at once if there is none on the bus. At the end of ctx
// it returns the devices as they are, with a [LateError].
func (n *Node) Wait(ctx context.Context) ([]Device, error) { return n.wait(ctx, 0) }

// Settled is Wait for a driver that was loaded just now. It waits no longer for a
// GPU when the load has ended and for a while no other one has come up either: the
// driver has probed what it found, and what it refused then it leaves alone.
func (n *Node) WaitAfterLoad(ctx context.Context) ([]Device, error) {
	return n.wait(ctx, n.probeTimeout)
}

// wait looks when something has happened, or when it may have: little tells, of what
// is awaited, whether it has. The first look mostly finds every GPU; only behind one that
// does not is listened, and looked again for what has happened meanwhile. quiet is how long nothing may happen once the module is
// live; 0 is for ever.
func (n *Node) wait(ctx context.Context, quiet time.Duration) ([]Device, error) {
	var events <-chan struct{}
	listening := n.events == nil
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(n.pollInterval)
	defer tick.Stop()
	late := new(NotReadyError)
	var devices []Device
	changed := time.Now()
	for {
		found, err := sysfs.Within(ctx, n.functions)
		if ctx.Err() != nil {
			late.Err = errors.Join(late.Err, ctx.Err())
			return devices, late
		}
		late.Err = err
		if err == nil {
			devices = deviceList(found)
			if err := n.permanentError(found); err != nil {
				return devices, err
			}
			if late.GPUs = n.notReady(found); len(late.GPUs) == 0 {
				return devices, nil
			}
		}
		if !listening {
			events, listening = n.events(ctx, n.RelevantEvent), true
			continue
		}
		looked, before := time.Now(), n.progress(found, late.GPUs)
		for waiting := true; waiting; {
			select {
			case <-events:
				changed, waiting = time.Now(), false
			case <-tick.C:
				now := n.progress(found, late.GPUs)
				if now.fingerprint != before.fingerprint {
					changed, waiting = time.Now(), false
				}
				if quiet > 0 && now.loaded && time.Since(changed) > quiet {
					late.Err = errors.Join(late.Err, errNoMoreGPUs)
					return devices, late
				}
				waiting = waiting && time.Since(looked) < 20*n.pollInterval
			case <-ctx.Done():
				waiting = false
			}
		}
	}
}

// pulse is the little that changes when an awaited GPU comes up.
type progress struct {
	fingerprint string
	loaded      bool // the drivers of what is awaited have been loaded
}

func (n *Node) progress(found []*Function, late []NotReady) progress {
	p := progress{loaded: true}
	for _, v := range n.vendors {
		var awaited []partition.Address
		for _, f := range ownedBy(v, found) {
			if slices.ContainsFunc(late, func(l NotReady) bool { return l.GPU == f.Address }) {
				awaited = append(awaited, f.Address)
			}
		}
		if len(awaited) == 0 {
			continue
		}
		signs, live := v.Progress(awaited)
		p.fingerprint += signs
		p.loaded = p.loaded && live
	}
	return p
}

// hopeless is the error that waiting does not change.
func (n *Node) permanentError(found []*Function) error {
	any := false
	var errs []error
	for _, f := range found {
		any = any || n.vendor(f.Vendor) != nil
		if e, ok := errors.AsType[interface {
			error
			Permanent() bool
		}](f.Err); ok && e.Permanent() {
			errs = append(errs, fmt.Errorf("cannot look at %s: %w", f.Address, f.Err))
		}
	}
	if !any {
		return &noGPU{n.vendorNames()}
	}
	return errors.Join(errs...)
}

// late lists what is not ready.
func (n *Node) notReady(found []*Function) []NotReady {
	var late []NotReady
	for _, f := range found {
		v := n.vendor(f.Vendor)
		if v == nil {
			continue
		}
		if lacks, cure := v.NotReady(*f); lacks != "" {
			late = append(late, NotReady{f.Address, f.Model, lacks, cure})
		}
	}
	return late
}
