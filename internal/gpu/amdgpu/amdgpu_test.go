package amdgpu

import (
	"context"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// node is a [gpu.Node] with AMD GPUs, and the vendor's parts, which tests call directly.
type node struct {
	*parts
	roots gpu.Roots
	all   *gpu.Node
}

func whole(r gpu.Roots, opts ...Option) node {
	return node{parts: newParts(r, opts...), roots: r}.with()
}

func (n node) with(opts ...gpu.Option) node {
	n.all = gpu.Open(n.roots.Sys, []gpu.Vendor{n.vendor()}, append([]gpu.Option{gpu.PollInterval(2 * time.Millisecond)}, opts...)...)
	return n
}

func (n node) Holders(ctx context.Context) ([]gpu.Holder, error) {
	u, err := n.all.Usage(ctx)
	if err == nil {
		err = u.Partial()
	}
	return u.Holders, err
}

func (n node) SetCompute(ctx context.Context, a partition.Address, to partition.Compute) error {
	return n.modes.setCompute(ctx, a, to, n.modes.busy.until())
}

func (n node) SetMemory(ctx context.Context, a partition.Address, to partition.Memory) error {
	return n.modes.setMemory(ctx, a, to)
}

func (n node) Reload(ctx context.Context) error {
	return n.all.Execute(ctx, []partition.Step{{Kind: partition.ReloadDriver}}, func(partition.Step, bool, error) {})
}

// scanLimits sets the time limits of the scan of open files, for all processes and for one.
func scanLimits(total, perProcess time.Duration) Option {
	return func(s *settings) { s.limits = openfiles.Limits{Total: total, PerProcess: perProcess} }
}
