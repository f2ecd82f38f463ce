package service

import (
	"context"

	"dcm/internal/gpu"
)

// withModeTables returns the devices of wait. If a table of modes was read for this load of
// the driver, it returns them with that table. Without the tables a plan uses the current
// list of each device and dcm's own table of models, so an error is only logged.
func (n *cachingNode) withModeTables(ctx context.Context, wait func(context.Context) ([]gpu.Device, error)) ([]gpu.Device, error) {
	devices, err := wait(ctx)
	if err != nil {
		return devices, err
	}
	changed, err := n.node.ReadModeTables(ctx, gpu.Partitionable(devices))
	if err != nil {
		n.log.Warn(err.Error())
	}
	if !changed {
		return devices, nil
	}
	return n.node.Devices(ctx)
}
