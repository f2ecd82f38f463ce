package service

import (
	"context"
	"fmt"

	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
)

// modeNode switches the compute modes of a node. It is a [made.ModeGPUs].
type modeNode struct {
	node *gpu.Node
	cfg  *config.Config // nil: unknown
}

func (m modeNode) Read(ctx context.Context, a partition.Address) (made.ModeState, error) {
	devices, err := m.node.Devices(ctx)
	for _, d := range devices {
		switch {
		case d.Address != a:
			continue
		case d.SkipReason != "":
			return made.ModeState{}, fmt.Errorf("%s: %s", a, d.SkipReason)
		case d.MIG != nil || d.Compute == "":
			return made.ModeState{}, fmt.Errorf("%s: %w", a, made.ErrNoModes)
		}
		s := made.ModeState{Compute: d.Compute, Available: d.AvailableCompute, Rest: m.rest(devices, a)}
		for _, p := range d.Parts {
			s.Nodes = append(s.Nodes, p.RenderNode())
		}
		used, err := m.node.Usage(ctx)
		if err != nil {
			return s, err
		}
		for _, h := range used.Holders {
			if h.Uses(d) {
				s.Users = append(s.Users, fmt.Sprintf("%s[%d]", h.Command, h.PID))
			}
		}
		return s, nil
	}
	if err != nil {
		return made.ModeState{}, err
	}
	return made.ModeState{}, fmt.Errorf("%s: %w", a, made.ErrNoModes)
}

// rest returns the compute mode of a GPU in the effective profile, "" if it has none.
func (m modeNode) rest(devices []gpu.Device, a partition.Address) partition.Compute {
	if m.cfg == nil || m.cfg.Selected == "" {
		return ""
	}
	gpus := gpu.Partitionable(devices)
	for i := range gpus {
		gpus[i].MadeMode = partition.MadeMode{}
	}
	layout, err := m.cfg.Profile.Layout(gpus)
	if err != nil || layout.Skipped[a] {
		return ""
	}
	return layout.Shapes[a].Compute
}

func (m modeNode) Switch(ctx context.Context, a partition.Address, from, to partition.Compute) error {
	before, err := m.settings(ctx, a)
	if err != nil {
		return err
	}
	step := partition.Step{Kind: partition.SwitchCompute, GPU: a, From: string(from), To: string(to)}
	if err := m.node.Execute(ctx, partition.Steps{step}, ignoreStep); err != nil {
		return err
	}
	after, err := m.settings(ctx, a)
	if err != nil {
		return err
	}
	for _, step := range partition.KeepSettings(a, before, after) {
		if err := m.node.Execute(ctx, partition.Steps{step}, ignoreStep); err != nil {
			return err
		}
	}
	return nil
}

// settings returns the settings of a GPU, which the driver resets at each switch. They are empty if it has none.
func (m modeNode) settings(ctx context.Context, a partition.Address) (partition.Settings, error) {
	devices, err := m.node.Devices(ctx)
	for _, d := range devices {
		if d.Address == a && d.SkipReason == "" {
			return d.Settings, nil
		}
	}
	return partition.Settings{}, err
}

func ignoreStep(partition.Step, bool, error) {}
