package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dcm/internal/partition"
)

// LateError says which GPUs the driver has not brought up.
type LateError struct {
	Late []Late
	Err  error // why waiting ended, and what could not be read
}

// Late is one of them.
type Late struct {
	GPU   partition.Address
	Model string
	Lacks string
}

func (e *LateError) Error() string {
	if len(e.Late) == 0 {
		return "cannot look at the GPUs: " + e.Err.Error()
	}
	text := make([]string, len(e.Late))
	for i, l := range e.Late {
		text[i] = fmt.Sprintf("%s (%s): %s", l.GPU, l.Model, l.Lacks)
	}
	return "the driver has not brought every GPU up: " + strings.Join(text, "; ")
}

func (e *LateError) Unwrap() error { return e.Err }

func (e *LateError) cure() string {
	return "See the kernel log for why the driver did not bring them up, and whether it is blacklisted."
}

// Wait returns the devices once the driver has brought every AMD GPU up that it
// may partition, or [ErrNoGPU] at once if there is none on the bus. At the end of
// ctx it returns the devices as they are, with a [LateError].
func (n *Node) Wait(ctx context.Context) ([]Device, error) {
	tick := time.NewTicker(n.poll)
	defer tick.Stop()
	late := new(LateError)
	var devices []Device
	for {
		found, err := within(ctx, n.functions)
		if ctx.Err() != nil {
			late.Err = errors.Join(late.Err, ctx.Err())
			return devices, late
		}
		late.Err = err
		if err == nil {
			devices = deviceList(found)
			if err := hopeless(found); err != nil {
				return devices, err
			}
			if late.Late = n.late(found); len(late.Late) == 0 {
				return devices, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// hopeless is the error that waiting does not change.
func hopeless(found []function) error {
	any := false
	var errs []error
	for _, f := range found {
		any = any || f.amd()
		if mode, ok := errors.AsType[*ModeError](f.err); ok && !mode.passing() {
			errs = append(errs, fmt.Errorf("cannot look at %s: %w", f.Address, f.err))
		}
	}
	if !any {
		return ErrNoGPU
	}
	return errors.Join(errs...)
}

// late lists what is not ready. The attributes of the modes appear in the middle
// of the driver's probing, the DRM device at its end, and the module is live when
// all of its GPUs are probed.
func (n *Node) late(found []function) []Late {
	state, _ := readOptional(n.sys("module", driver, "initstate"))
	var late []Late
	for _, f := range found {
		lacks := ""
		switch {
		case !f.awaited():
		case f.err != nil:
			lacks = f.err.Error()
		case f.Driver == "" && !n.Loaded():
			lacks = "the " + driver + " driver is not loaded"
		case f.Driver == "":
			lacks = "driver not bound"
		case f.Driver != driver: // given to a virtual machine, say
		case !f.drm:
			lacks = "it has no DRM device yet"
		case state == "coming":
			lacks = "the driver is still coming up"
		}
		if lacks != "" {
			late = append(late, Late{f.Address, f.Model, lacks})
		}
	}
	return late
}

// awaited tells whether f is a GPU that the driver may show modes for. Other
// AMD cards may have another driver, or none, for good.
func (f function) awaited() bool {
	_, known := partition.LookupModel(f.Device.Device)
	return f.amd() && (known || f.class>>16 == classAccelerator)
}
