package leaseservice

import (
	"context"
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// name sets the GPUs or partitions that a request names. It returns a [lease.ImpossibleError] for one that the
// host does not have.
func (s *Service) name(ctx context.Context, w dbusapi.Request, r *lease.Request) error {
	if !w.Named() {
		return nil
	}
	var gpus []partition.Address
	for _, name := range w.NamedGPUs {
		selector, err := partition.ParseSelector(name)
		if err != nil {
			return err
		}
		gpu, err := s.partitions.selected(ctx, selector)
		if err != nil {
			return err
		}
		gpus = appendNew(gpus, gpu)
	}
	if len(gpus) > 0 {
		r.Want = r.NameGPUs(gpus)
		return nil
	}
	var names []string
	for _, text := range w.NamedPartitions {
		p, err := lease.ParsePartName(text)
		if err != nil {
			return err
		}
		gpu, err := s.partitions.gpuOf(ctx, p)
		if err != nil {
			return err
		}
		names = appendNew(names, runstate.PartName(gpu, p.Index))
	}
	r.Want = r.NamePartitions(names)
	return nil
}

func appendNew[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// gpuOf returns the GPU of a partition that a request names.
func (p *Partitions) gpuOf(ctx context.Context, n lease.PartName) (partition.Address, error) {
	if n.Bus == "" {
		return p.selected(ctx, n.GPU)
	}
	last, err := p.listed()
	if err != nil {
		return "", err
	}
	var all []partition.Address
	for _, address := range slices.Sorted(maps.Keys(last.Modes)) {
		all = append(all, partition.Address(address))
	}
	gpu, err := lease.OnBus(n.Bus, all)
	if err != nil {
		return "", &lease.ImpossibleError{Err: err}
	}
	return gpu, nil
}

// selected returns the address of a GPU. Only for an index it reads the GPUs.
func (p *Partitions) selected(ctx context.Context, s partition.Selector) (partition.Address, error) {
	if s.Address != "" {
		return s.Address, nil
	}
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	devices, err := p.node.Devices(ctx)
	if err != nil {
		return "", err
	}
	found, err := partition.Select([]partition.Selector{s}, gpu.Partitionable(devices))
	if err != nil {
		return "", &lease.ImpossibleError{Err: err}
	}
	return found[0], nil
}
