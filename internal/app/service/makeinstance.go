package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
)

// migNodes changes the instances of GPUs. Each GPU is opened alone: a read of all takes a driver's library
// longer, and the first read after a change loads no library. It is a [made.GPUs].
type migNodes struct {
	host *host.Host
	cfg  *config.Config
	open map[partition.Address]*oneGPU
}

// oneGPU is a GPU with its state after the last change.
type oneGPU struct {
	*gpu.Node
	devices []gpu.Device // nil: unknown
}

func (m migNodes) on(a partition.Address) *oneGPU {
	if m.open[a] == nil {
		m.open[a] = &oneGPU{Node: host.OpenNodeToMake(m.host, m.cfg, a)}
	}
	return m.open[a]
}

// Devices returns the state of the GPU after the last change, or reads it.
func (g *oneGPU) Devices(ctx context.Context) (devices []gpu.Device, err error) {
	if g.devices == nil {
		g.devices, err = g.Node.Devices(ctx)
	}
	return g.devices, err
}

func (m migNodes) Create(ctx context.Context, a partition.Address, one partition.Instance) ([]string, error) {
	err := m.execute(ctx, partition.CreateInstances, a, []partition.Instance{one})
	if gpu.Occupied(err) {
		return nil, fmt.Errorf("%w: %w", made.ErrOccupied, err)
	}
	if err != nil {
		return nil, err
	}
	devices, err := m.on(a).Devices(ctx)
	for _, d := range devices {
		if at := slices.IndexFunc(d.Parts, func(p gpu.Part) bool { return p.Start == one.Start }); at >= 0 {
			p := d.Parts[at]
			return append(slices.Clone(p.CompanionNodes), p.RenderNode()), err
		}
	}
	return nil, err
}

func (m migNodes) Destroy(ctx context.Context, a partition.Address, list []partition.Instance) error {
	err := m.execute(ctx, partition.DestroyInstances, a, list)
	if err == nil {
		return nil
	}
	devices, unread := m.on(a).Devices(ctx)
	if unread != nil || len(devices) > 0 && (devices[0].SkipReason != "" || devices[0].MIG != nil && !devices[0].MIG.Off) {
		return err
	}
	return fmt.Errorf("%s: %w", a, made.ErrNoInstances)
}

func (m migNodes) execute(ctx context.Context, kind partition.Kind, a partition.Address, list []partition.Instance) error {
	node := m.on(a)
	node.devices = nil
	step := partition.Step{Kind: kind, GPU: a, MIG: &partition.MIG{Instances: list}, Alone: true}
	return node.Execute(ctx, partition.Steps{step}, func(partition.Step, bool, error) {})
}

// usersTimeout is how long the search for the users of an instance may take.
const usersTimeout = 10 * time.Second

// users names the processes that use an instance, "" if none is visible.
func (m migNodes) users(ctx context.Context, n made.Name) string {
	ctx, cancel := context.WithTimeout(ctx, usersTimeout)
	defer cancel()
	node := m.on(n.GPU)
	devices, err := node.Devices(ctx)
	usage, unread := node.Usage(ctx)
	if err != nil || unread != nil || len(devices) == 0 {
		return ""
	}
	var others []partition.Instance
	for _, p := range devices[0].Parts {
		if p.Start != n.Start {
			others = append(others, partition.Instance{Profile: p.Profile, Start: p.Start})
		}
	}
	step := partition.Step{Kind: partition.DestroyInstances, GPU: n.GPU, MIG: &partition.MIG{Instances: []partition.Instance{n.Instance()}}, Kept: &partition.MIG{Instances: others}}
	holders := apply.Holders(gpu.Blockers(partition.Steps{step}, devices, usage.Holders))
	if len(holders) == 0 {
		return ""
	}
	return runstate.InUse(holders).Text
}
