package account

import (
	"dcm/internal/partition"
	"dcm/internal/report"
)

// pending notes memory modes that were requested and have not come.
func (a *Account) pending() {
	asked := report.PendingSince(a.LastRun, a.Host.Boot)
	for i := range a.GPUs {
		g := &a.GPUs[i]
		if mode := string(asked[partition.Address(g.Address)]); mode != g.Mode.Memory {
			g.Pending = mode
		}
	}
}
