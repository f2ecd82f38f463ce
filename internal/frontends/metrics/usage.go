package metrics

import (
	"slices"

	"dcm/internal/frontends/status"
)

// reserved adds which partitions are reserved. It adds no other holders: only systemd knows these, and
// it sends no event that would cause a new write.
func (e *exposition) reserved(a status.Account) {
	f := e.gauge("partition_reserved", "Whether a partition is reserved.", "partition", "gpu")
	if len(a.Reserved) == 0 {
		return
	}
	for _, p := range a.Parts {
		reserved := slices.ContainsFunc(a.Reserved, func(r status.Reserved) bool { return slices.Contains(r.Partitions, p.Name) })
		f.set(boolValue(reserved), p.Name, p.GPU)
	}
}

// RenderUsage returns the metrics of the partitions' use, without values that are unknown. The only
// labels are the partition and its GPU, so the number of time series does not depend on the users.
func RenderUsage(u status.Usage) []byte {
	var e exposition
	gauge := func(name, help string) func(p status.PartUse, value float64) {
		f := e.gauge("partition_"+name, help, "partition", "gpu")
		return func(p status.PartUse, value float64) { f.set(value, p.Name, p.GPU) }
	}
	size := gauge("memory_bytes", "Memory of a partition.")
	used := gauge("memory_used_bytes", "Memory that processes use in a partition. For an undivided GPU this is all memory in use.")
	busy := gauge("busy_ratio", "Share of the compute units' time in which a partition is busy, from 0 to 1.")
	held := gauge("held", "Whether a unit, a lease, a reservation or a process holds a partition.")
	processes := gauge("processes", "Number of processes that use a partition.")
	e.gauge("usage_timestamp_seconds", "When the usage was measured.").set(float64(u.Taken.Unix()))
	for _, p := range u.Parts {
		if p.Memory > 0 {
			size(p, float64(p.Memory))
		}
		if p.Used != nil {
			used(p, float64(*p.Used))
		}
		if p.Busy != nil {
			busy(p, *p.Busy/100)
		}
		if len(p.Holders) > 0 || u.Why(status.PartHolders) == "" {
			held(p, boolValue(len(p.Holders) > 0))
		}
		if u.Why(status.PartProcesses) == "" {
			processes(p, float64(len(p.Processes)))
		}
	}
	return e.text()
}
