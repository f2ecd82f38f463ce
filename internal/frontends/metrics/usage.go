package metrics

import (
	"slices"

	"dcm/internal/frontends/status"
)

// reserved tells which partitions are kept for somebody, which is known without a look
// at a device. Who has the others systemd knows, and it tells dcm of no change.
func (e *exposition) reserved(a status.Account) {
	f := e.gauge("partition_reserved", "Whether a partition is kept for a reservation.", "partition", "gpu")
	if len(a.Reserved) == 0 {
		return
	}
	for _, p := range a.Parts {
		kept := slices.ContainsFunc(a.Reserved, func(r status.Reserved) bool { return slices.Contains(r.Partitions, p.Name) })
		f.set(truth(kept), p.Name, p.GPU)
	}
}

// RenderUsage returns the metrics of how much of the partitions is in use. What is not
// known is left out. The labels are the partitions' names alone: there are as many as the
// GPUs have, whoever uses them.
func RenderUsage(u status.Usage) []byte {
	var e exposition
	gauge := func(name, help string) func(p status.PartUse, value float64) {
		f := e.gauge("partition_"+name, help, "partition", "gpu")
		return func(p status.PartUse, value float64) { f.set(value, p.Name, p.GPU) }
	}
	size := gauge("memory_bytes", "How much memory a partition has.")
	used := gauge("memory_used_bytes", "How much of it processes have; of a GPU that is one partition, all that is in use.")
	busy := gauge("busy_ratio", "How much of the compute units' time a partition is busy, from 0 to 1.")
	held := gauge("held", "Whether a unit, a lease, a reservation or a process has a partition.")
	processes := gauge("processes", "How many processes use a partition.")
	e.gauge("usage_timestamp_seconds", "When the usage of the partitions was looked at.").set(float64(u.Taken.Unix()))
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
			held(p, truth(len(p.Holders) > 0))
		}
		if u.Why(status.PartProcesses) == "" {
			processes(p, float64(len(p.Processes)))
		}
	}
	return e.text()
}
