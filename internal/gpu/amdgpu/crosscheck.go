package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// errLibraryUnused means that the configuration does not permit the library.
var errLibraryUnused = errors.New(`not used: it would be with [gpu] backend = "auto"`)

// CrossCheck reads the modes through AMD's library. dcm itself sets and reads modes through
// sysfs.
func (n *Node) CrossCheck(ctx context.Context, devices []*gpu.Device) (who string, seen []gpu.Observation, err error) {
	const library = "libamd_smi"
	if n.smi == nil {
		return library, nil, errLibraryUnused
	}
	found, err := n.smi.Inventory(ctx)
	if err != nil {
		return library, nil, err
	}
	var errs []error
	for _, g := range found.GPUs {
		if g.Compute == "" {
			errs = append(errs, fmt.Errorf("%s: %s", g.Address, strings.Join(g.Notes, "; ")))
			continue
		}
		mode := partition.Mode{Compute: partition.Compute(g.Compute), Memory: partition.Memory(g.Memory)}
		seen = append(seen, gpu.Observation{GPU: g.Address, Shape: partition.Shape{Mode: mode}, Parts: -1})
	}
	return found.Library.String(), seen, errors.Join(errs...)
}
