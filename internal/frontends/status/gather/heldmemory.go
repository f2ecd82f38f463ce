package gather

import (
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// HeldMemoryHint is the remedy for memory that no process holds. A process that systemd or a container engine
// kills in a call of the driver can leave it.
const HeldMemoryHint = "stop its clients and reset the GPU or reload the driver, otherwise reboot; give services enough TimeoutStopSec= to end by SIGTERM; see dcm-check(7)"

// addHeldMemory adds the memory that no process holds, as the daemon listed it.
func addHeldMemory(h *host.Host, cfg *config.Config, s *status.Inventory) {
	list, err := runstate.ReadHeldMemory(h.Runtime())
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		for _, m := range list {
			if string(m.GPU) != g.Address || !g.Managed() {
				continue
			}
			g.HeldMemory = m.Bytes
			if cfg == nil || cfg.Leases.HeldMemory != config.IgnoreHeldMemory {
				s.Problems = append(s.Problems, status.Problem{State: status.Full, Text: m.String(), Hint: HeldMemoryHint})
			}
		}
	}
}

// HeldMemory returns the GPUs with memory that no process holds, as the daemon listed it, which leases and
// reservations take last, or leases not at all. It returns none if the configuration ignores them.
func HeldMemory(h *host.Host, cfg *config.Config) []runstate.MemoryHeld {
	list, err := runstate.ReadHeldMemory(h.Runtime())
	if err != nil || cfg.Leases.HeldMemory == config.IgnoreHeldMemory {
		return nil // the status has the error
	}
	return list
}
