package leaseservice

import (
	"fmt"
	"log/slog"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// PlaceFor chooses the placement of the instance of a service, like that of a lease. among limits the GPUs;
// nil: all. On an error, later reports whether a later attempt may succeed.
func PlaceFor(h *host.Host, cfg *config.Config, s made.Service, among []partition.Selector) (n made.Name, later bool, err error) {
	gpus, err := newPartitions(h, func() *config.Config { return cfg }, slog.New(slog.DiscardHandler)).dynamic.read(among, nil, nil)
	if err != nil {
		return n, true, err
	}
	at, slot, err := lease.BestSlot(gpus, s.Profile)
	if err != nil {
		return n, lease.Passes(err), fmt.Errorf("%w%s", err, holdersOfSlots(gpus))
	}
	return made.Name{Lease: s.Unit, GPU: gpus[at].GPU, Profile: s.Profile, Start: slot.Start}, false, nil
}

// holdersOfSlots names the holders of instances on the GPUs, one in each line.
func holdersOfSlots(gpus []lease.DynamicGPU) string {
	text := ""
	for _, g := range gpus {
		for _, n := range g.Made {
			text += fmt.Sprintf("\n%s has %s at slot %d of %s", n.Lease, n.Profile, n.Start, n.GPU)
		}
	}
	return text
}
