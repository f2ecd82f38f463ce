package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	if e.unloaded() {
		return "Load the driver with `modprobe " + driver + "`; if it is not loaded at boot, see whether it is blacklisted in /etc/modprobe.d or on the kernel command line."
	}
	return "See the kernel log for why the driver did not bring them up, and whether it is blacklisted."
}

// unloaded tells that all that is wrong is that there is no driver.
func (e *LateError) unloaded() bool {
	return len(e.Late) > 0 && !slices.ContainsFunc(e.Late, func(l Late) bool { return l.Lacks != notLoaded })
}

const notLoaded = "the " + driver + " driver is not loaded"

// errSettled ends the wait for a GPU that the driver has left alone.
var errSettled = errors.New("the driver was loaded, and has brought up no other GPU since")

// Wait returns the devices once the driver has brought every AMD GPU up that it
// may partition, or [ErrNoGPU] at once if there is none on the bus. At the end of
// ctx it returns the devices as they are, with a [LateError].
func (n *Node) Wait(ctx context.Context) ([]Device, error) { return n.wait(ctx, 0) }

// Settled is Wait for a driver that was loaded just now. It waits no longer for a
// GPU when the load has ended and for a while no other one has come up either: the
// driver has probed what it found, and what it refused then it leaves alone.
func (n *Node) Settled(ctx context.Context) ([]Device, error) { return n.wait(ctx, n.quiet) }

// wait looks when something has happened, or when it may have: little tells, of what
// is awaited, whether it has. quiet is how long nothing may happen once the module is
// live; 0 is for ever.
func (n *Node) wait(ctx context.Context, quiet time.Duration) ([]Device, error) {
	events, stop := n.listen(ctx)
	defer stop()
	tick := time.NewTicker(n.poll)
	defer tick.Stop()
	late := new(LateError)
	var devices []Device
	changed := time.Now()
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
		looked, before := time.Now(), n.pulse(late.Late)
		for waiting := true; waiting; {
			select {
			case <-events:
				changed, waiting = time.Now(), false
			case <-tick.C:
				now := n.pulse(late.Late)
				if now.signs != before.signs {
					changed, waiting = time.Now(), false
				}
				if quiet > 0 && now.live && time.Since(changed) > quiet {
					late.Err = errors.Join(late.Err, errSettled)
					return devices, late
				}
				waiting = waiting && time.Since(looked) < 20*n.poll
			case <-ctx.Done():
				waiting = false
			}
		}
	}
}

// listen has the kernel tell of devices, where somebody can listen.
func (n *Node) listen(ctx context.Context) (<-chan struct{}, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if n.events == nil {
		return nil, stop
	}
	return n.events(ctx), stop
}

// pulse is the little that changes when an awaited GPU comes up.
type pulse struct {
	signs string
	live  bool // the module has been loaded, with all that it probed on the way
}

func (n *Node) pulse(late []Late) pulse {
	state, _ := readOptional(n.sys("module", driver, "initstate"))
	var b strings.Builder
	b.WriteString(state)
	for _, l := range late {
		for _, sign := range []string{"driver", "drm", computeFile} {
			_, err := os.Lstat(n.pci(l.GPU, sign))
			fmt.Fprint(&b, err == nil)
		}
	}
	return pulse{b.String(), state == "live"}
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
			lacks = notLoaded
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
