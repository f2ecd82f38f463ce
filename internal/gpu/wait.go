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
	return "See the kernel log for the reason. Check whether the driver is blacklisted."
}

// errNoMoreGPUs ends the wait for a GPU that the loaded driver does not bring up.
var errNoMoreGPUs = errors.New("the driver is loaded and brings up no further GPU")

// Wait returns the devices when their drivers have brought up every GPU that may be
// partitioned. It returns [ErrNoGPU] immediately if the bus has none. When ctx ends, it
// returns the devices in their current state and a [NotReadyError].
func (n *Node) Wait(ctx context.Context) ([]Device, error) { return n.wait(ctx, 0) }

// WaitAfterLoad is Wait for a driver that was loaded just now. It gives up a missing GPU if
// the load has ended and no other GPU has come up for the probe timeout: the driver has then
// probed everything and refused this one.
func (n *Node) WaitAfterLoad(ctx context.Context) ([]Device, error) {
	return n.wait(ctx, n.probeTimeout)
}

// wait inspects the devices again after each event, and after a change of the vendors'
// progress. It subscribes to events only if the first inspection finds a GPU missing, and
// then inspects again, since events before that are lost. probeTimeout 0 means no limit.
func (n *Node) wait(ctx context.Context, quiet time.Duration) ([]Device, error) {
	var events <-chan struct{}
	listening := n.events == nil
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(n.pollInterval)
	defer tick.Stop()
	failed := new(NotReadyError)
	var devices []Device
	changed := time.Now()
	for {
		found, err := sysfs.Within(ctx, n.functions)
		if ctx.Err() != nil {
			failed.Err = errors.Join(failed.Err, ctx.Err())
			return devices, failed
		}
		failed.Err = err
		if err == nil {
			devices = deviceList(found)
			if err := n.permanentError(found); err != nil {
				return devices, err
			}
			if failed.GPUs = n.notReady(found); len(failed.GPUs) == 0 {
				return devices, nil
			}
		}
		if !listening {
			events, listening = n.events(ctx, n.RelevantEvent), true
			continue
		}
		looked, before := time.Now(), n.progress(found, failed.GPUs)
		for waiting := true; waiting; {
			select {
			case <-events:
				changed, waiting = time.Now(), false
			case <-tick.C:
				now := n.progress(found, failed.GPUs)
				if now.fingerprint != before.fingerprint {
					changed, waiting = time.Now(), false
				}
				if quiet > 0 && now.loaded && time.Since(changed) > quiet {
					failed.Err = errors.Join(failed.Err, errNoMoreGPUs)
					return devices, failed
				}
				waiting = waiting && time.Since(looked) < 20*n.pollInterval
			case <-ctx.Done():
				waiting = false
			}
		}
	}
}

// progress is the state of the GPUs that are missing; see [Inspector.Progress].
type progress struct {
	fingerprint string
	loaded      bool // their drivers are loaded
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

// permanentError returns the error that waiting does not resolve.
func (n *Node) permanentError(found []*Function) error {
	any := false
	var errs []error
	for _, f := range found {
		any = any || n.vendor(f.Vendor) != nil
		if e, ok := errors.AsType[interface {
			error
			Permanent() bool
		}](f.Err); ok && e.Permanent() {
			errs = append(errs, fmt.Errorf("cannot read %s: %w", f.Address, f.Err))
		}
	}
	if !any {
		return &noGPU{n.vendorNames()}
	}
	return errors.Join(errs...)
}

// notReady lists the GPUs that are not ready.
func (n *Node) notReady(found []*Function) []NotReady {
	var late []NotReady
	for _, f := range found {
		v := n.vendor(f.Vendor)
		if v == nil {
			continue
		}
		if lacks, hint := v.NotReady(*f); lacks != "" {
			late = append(late, NotReady{f.Address, f.Model, lacks, hint})
		}
	}
	return late
}
