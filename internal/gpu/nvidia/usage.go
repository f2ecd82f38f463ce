package nvidia

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/openfiles"
)

// usageReader finds the processes that use the GPUs. It is a [gpu.UsageReader].
type usageReader struct {
	host      host
	lastReply *atomic.Pointer[nvml.Reply] // of a read
	limits    openfiles.Limits            // of the scan of open files
}

// Usage implements [gpu.UsageReader].
func (n *usageReader) Usage(ctx context.Context) (gpu.VendorUsage, error) {
	if n.host.module().State() == "" {
		return gpu.VendorUsage{}, nil
	}
	u, err := openfiles.Search{Proc: n.host.Proc, Nodes: n.host.deviceNodes, Module: n.host.module(), Limits: n.limits, Attribute: n.attributeListed}.Usage(ctx)
	u.Holders = slices.DeleteFunc(u.Holders, func(h gpu.Holder) bool { return slices.Contains(ExemptUnits(), h.Unit) })
	return u, err
}

// attributeListed adds the processes that the library listed in the last reply and that
// still exist.
func (n *usageReader) attributeListed(s *openfiles.Scan) (orphans []int, err error) {
	last := n.lastReply.Load()
	if last == nil {
		return nil, nil
	}
	minors := sync.OnceValue(n.host.capMinors)
	for _, g := range last.GPUs {
		for _, p := range g.Processes {
			if g.Minor == nil || p.PID == os.Getpid() || !s.Exists(p.PID) {
				continue
			}
			s.Attribute(p.PID, fmt.Sprintf("/dev/nvidia%d", *g.Minor))
			if p.GPUInstance >= 0 && p.ComputeInstance >= 0 {
				own := nvml.Instance{ID: p.GPUInstance, Compute: []nvml.ComputeInstance{{ID: p.ComputeInstance}}}
				for _, node := range instanceNodes(*g.Minor, []nvml.Instance{own}, minors()) {
					s.Attribute(p.PID, node)
				}
			}
		}
	}
	return nil, nil
}

// UsageFingerprint returns the use count of the module.
func (n *usageReader) UsageFingerprint() string {
	count, modules, ok := n.host.module().UseCount()
	return fmt.Sprint(count, modules, ok)
}
