package amdgpu

import (
	"context"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// node is AMD's part of a machine, looked at through the whole of it.
type node struct {
	*Node
	all *gpu.Node
}

func whole(r gpu.Roots, opts ...Option) node {
	return node{Node: Open(r, opts...)}.with()
}

func (n node) with(opts ...gpu.Option) node {
	n.all = gpu.Open(n.roots.Sys, []gpu.Vendor{n.Node}, append([]gpu.Option{gpu.PollInterval(2 * time.Millisecond)}, opts...)...)
	return n
}

func (n node) Devices(ctx context.Context) ([]gpu.Device, error) { return n.all.Devices(ctx) }
func (n node) Wait(ctx context.Context) ([]gpu.Device, error)    { return n.all.Wait(ctx) }
func (n node) Settled(ctx context.Context) ([]gpu.Device, error) { return n.all.WaitAfterLoad(ctx) }
func (n node) Holders(ctx context.Context) ([]gpu.Holder, error) { return n.all.Holders(ctx) }
func (n node) Load(ctx context.Context) error                    { return n.all.Load(ctx) }
func (n node) Enrich(ctx context.Context, d []gpu.Device) error  { return n.all.Enrich(ctx, d) }
func (n node) Detail(ctx context.Context, d []gpu.Device) error  { return n.all.ReadDetails(ctx, d) }
func (n node) Measure(ctx context.Context, d []gpu.Device) ([]gpu.PartitionUsage, error) {
	return n.all.Measure(ctx, d)
}

func (n node) Reload(ctx context.Context) error {
	return n.all.Execute(ctx, []partition.Step{{Kind: partition.ReloadDriver}}, func(partition.Step, bool, error) {})
}

func (n node) WaitUsage(ctx context.Context, wanted func(gpu.Usage) bool) error {
	return n.all.WaitUsage(ctx, wanted)
}
