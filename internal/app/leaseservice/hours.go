package leaseservice

import (
	"context"
	"slices"
	"sync"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// userHours reads the reservations for users. It remembers their GPUs: to read them takes long, and their indices
// change only with the GPUs.
type userHours struct {
	node   *gpu.Node
	mu     sync.Mutex
	config *config.Config
	all    []string // the addresses of the published GPUs
	gpus   [][]partition.Address
}

// read returns the reservations for users of a configuration. A GPU that is missing is in none of them. all has
// the addresses of the published GPUs.
func (h *userHours) read(ctx context.Context, cfg *config.Config, all []string) ([]lease.Hours, error) {
	if len(cfg.UserReservations) == 0 {
		return nil, nil
	}
	gpus, err := h.gpusOf(ctx, cfg, all)
	if err != nil {
		return nil, err
	}
	var out []lease.Hours
	for i, r := range cfg.UserReservations {
		out = append(out, lease.Hours{User: r.User, UID: uidOf(r.User), GPUs: gpus[i], When: r.Hours})
	}
	return out, nil
}

// gpusOf returns the GPUs of each reservation.
func (h *userHours) gpusOf(ctx context.Context, cfg *config.Config, all []string) ([][]partition.Address, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.config == cfg && slices.Equal(h.all, all) {
		return h.gpus, nil
	}
	devices, err := h.node.Devices(ctx)
	if err != nil {
		return nil, err
	}
	var found [][]partition.Address
	for _, r := range cfg.UserReservations {
		list, _ := partition.Select(r.GPUs, gpu.Partitionable(devices)) // dcm check names the others
		found = append(found, list)
	}
	h.config, h.all, h.gpus = cfg, all, found
	return found, nil
}

// uidOf returns the number of a user, given its name or number.
func uidOf(name string) uint32 {
	if uid, ok := host.UID(name); ok {
		return uid
	}
	return lease.NoUser
}
