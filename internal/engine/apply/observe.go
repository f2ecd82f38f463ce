package apply

import (
	"context"
	"errors"
	"time"

	"dcm/internal/gpu"
)

// observe waits for the driver to bring up its GPUs. The device timeout is for the whole run:
// GPUs that do not come up delay the clients only once, even if the undo loads the driver
// again.
func (r *run) observe(ctx context.Context) ([]gpu.Device, error) {
	devices, err := r.wait(ctx)
	return withInstances(devices, r.opt.Users, r.rec.full()), err
}

func (r *run) wait(ctx context.Context) ([]gpu.Device, error) {
	if !r.loaded {
		ctx, cancel := context.WithTimeout(ctx, r.opt.DeviceTimeout)
		defer cancel()
		return r.node.Reader.Wait(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, max(r.opt.DeviceTimeout-r.waited, minWaitTimeout))
	defer cancel()
	began := time.Now()
	devices, err := r.node.Reader.WaitAfterLoad(ctx)
	if err != nil {
		r.waited += time.Since(began)
	}
	return devices, err
}

// minWaitTimeout is the time for one observation after the device timeout has passed.
const minWaitTimeout = time.Second

// glance returns the devices for the undo. If the run has just waited for GPUs without success,
// glance does not wait for them again.
func (r *run) glance(ctx context.Context, cause error) ([]gpu.Device, error) {
	if _, late := errors.AsType[*gpu.NotReadyError](cause); !late {
		return r.observe(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.opt.StepTimeout)
	defer cancel()
	return r.node.Reader.Devices(ctx)
}

// load loads the driver if a reload left it unloaded.
func (r *run) load(ctx context.Context) error {
	if r.node.Driver.Loaded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opt.ReloadTimeout)
	defer cancel()
	r.loaded = true
	return r.node.Driver.Load(ctx)
}
