package apply

import (
	"context"
	"errors"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// observer observes the GPUs of a run, and loads their driver.
type observer struct {
	node Node
	opt  Options
	rec  *Recorder

	bindings map[partition.Address]gpu.Binding // in the last observation
	again    []partition.Address               // the GPUs whose binding differs from that of the observation before

	loaded bool          // the run has loaded the driver
	waited time.Duration // for GPUs that the driver did not bring up after its load
}

// observe waits for the driver to bring up its GPUs. The device timeout is for the whole run:
// GPUs that do not come up delay the clients only once, even if the undo loads the driver
// again.
func (o *observer) observe(ctx context.Context) ([]gpu.Device, error) {
	devices, err := o.wait(ctx)
	o.compareBindings(devices)
	return withInstances(devices, o.opt.Users, o.rec.Run().NoRoom), err
}

// compareBindings sets which GPUs were bound again since the last observation.
func (o *observer) compareBindings(devices []gpu.Device) {
	last := o.bindings
	o.bindings, o.again = make(map[partition.Address]gpu.Binding), nil
	for _, d := range devices {
		o.bindings[d.Address] = d.Binding
		if d.Binding.NewSince(last[d.Address]) {
			o.again = append(o.again, d.Address)
		}
	}
}

func (o *observer) wait(ctx context.Context) ([]gpu.Device, error) {
	if !o.loaded {
		ctx, cancel := context.WithTimeout(ctx, o.opt.DeviceTimeout)
		defer cancel()
		return o.node.Reader.Wait(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, max(o.opt.DeviceTimeout-o.waited, minWaitTimeout))
	defer cancel()
	began := time.Now()
	devices, err := o.node.Reader.WaitAfterLoad(ctx)
	if err != nil {
		o.waited += time.Since(began)
	}
	return devices, err
}

// minWaitTimeout is the time for one observation after the device timeout has passed.
const minWaitTimeout = time.Second

// glance returns the devices for the undo. If the run has just waited for GPUs without success,
// glance does not wait for them again.
func (o *observer) glance(ctx context.Context, cause error) ([]gpu.Device, error) {
	if _, late := errors.AsType[*gpu.NotReadyError](cause); !late {
		return o.observe(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, o.opt.StepTimeout)
	defer cancel()
	return o.node.Reader.Devices(ctx)
}

// load loads the driver if a reload left it unloaded.
func (o *observer) load(ctx context.Context) error {
	if o.node.Driver.Loaded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.opt.ReloadTimeout)
	defer cancel()
	o.loaded = true
	return o.node.Driver.Load(ctx)
}
