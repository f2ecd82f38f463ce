package gpu

import (
	"context"
	"errors"

	"dcm/internal/gpu/partition"
)

// ReadModeTables calls the function of that name of each vendor. It writes to the drivers,
// so that only a run may call it.
func (n *Node) ReadModeTables(ctx context.Context, gpus []partition.GPU) (changed bool, err error) {
	var errs []error
	for _, v := range n.bus.vendors {
		if v.ReadModeTables == nil {
			continue
		}
		stored, err := v.ReadModeTables(ctx, gpus)
		changed, errs = changed || stored, append(errs, err)
	}
	return changed, errors.Join(errs...)
}
