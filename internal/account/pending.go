package account

import (
	"slices"

	"dcm/internal/partition"
	"dcm/internal/report"
)

// pending notes memory modes that were requested and have not come. No driver shows
// a request, so that the last run's report has to tell: a request that was made, and
// no load of the driver after it.
func (a *Account) pending() {
	if a.LastRun == nil || a.LastRun.Boot != a.Host.Boot {
		return
	}
	asked := make(map[string]string)
	for _, s := range a.LastRun.Steps {
		switch {
		case s.Error != "" || s.Finished.IsZero():
		case s.Kind == partition.RequestMemory:
			for _, gpu := range of(s) {
				asked[gpu] = s.To
			}
		case s.Kind == partition.ReloadDriver:
			clear(asked)
		}
	}
	for i := range a.GPUs {
		g := &a.GPUs[i]
		if mode := asked[g.Address]; mode != g.Mode.Memory {
			g.Pending = mode
		}
	}
}

// of lists the GPUs that a request is of.
func of(s report.Step) []string {
	out := []string{string(s.GPU)}
	for _, gpu := range s.Hive {
		out = append(out, string(gpu))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
