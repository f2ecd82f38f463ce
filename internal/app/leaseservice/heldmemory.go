package leaseservice

import (
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/leases/lease"
)

// HeldMemory returns the GPUs with memory that no process holds, and whether leases take them.
func HeldMemory(h *host.Host, cfg *config.Config) lease.HeldMemory {
	return lease.HeldMemory{GPUs: gather.HeldMemory(h, cfg), Refuse: cfg.Leases.HeldMemory == config.RefuseHeldMemory}
}
