package status

import (
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// pending records memory modes that were requested and did not take effect.
func (a *Account) pending() {
	asked := runstate.PendingSince(a.LastRun, a.Host.Boot)
	for i := range a.GPUs {
		g := &a.GPUs[i]
		if mode := string(asked[partition.Address(g.Address)]); mode != g.Mode.Memory {
			g.Pending = mode
		}
	}
}
