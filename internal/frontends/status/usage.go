package status

import "time"

// Usage is the use of the partitions at one moment. It is not part of an account, since a driver
// takes time to measure it.
type Usage struct {
	Version int               `json:"version"`
	Taken   time.Time         `json:"taken"`
	Parts   List[PartUse]     `json:"partitions"`
	Leases  List[Lease]       `json:"leases"`
	Hidden  List[Unavailable] `json:"hidden"`
}

// PartUse is the use of one partition.
type PartUse struct {
	Name   string `json:"name"` // "0000:05:00.0-3"
	GPU    string `json:"gpu"`
	Mode   string `json:"mode"`
	NUMA   int    `json:"numa"`
	Memory uint64 `json:"memory_bytes"` // 0 if unknown

	Used    *uint64           `json:"memory_used_bytes"`     // null if unknown
	Busy    *float64          `json:"busy_percent"`          // null if unknown
	Sum     uint64            `json:"busy_sum,omitempty"`    // a counter of the driver, see [Usage.Since]
	Cycles  uint64            `json:"busy_cycles,omitempty"` // the counter of cycles that belongs to Sum
	Unknown map[string]string `json:"unknown,omitempty"`     // why a value is unknown, by its JSON key

	Holders   List[string]  `json:"holders"`   // units, leases, "reservation NAME", "python[4711]"
	Processes List[Process] `json:"processes"` // that have memory in the partition, or its render node open
}

// Process is a process that uses a partition.
type Process struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Unit    string    `json:"unit"` // "" for none
	User    string    `json:"user"`
	Since   time.Time `json:"since,omitzero"` // its start, to the second; absent if it has ended
	Memory  *uint64   `json:"memory_bytes"`   // its memory in the partition; null if unknown
}

// The JSON keys of the parts of a [Usage] that may be hidden.
const (
	PartHolders   = "holders"
	PartProcesses = "processes"
	PartUses      = "partitions"
	PartLeases    = "leases"
)

// The JSON keys of the values of a partition that may be unknown.
const (
	KeyUsed = "memory_used_bytes"
	KeyBusy = "busy_percent"
)

// Hide records that a part could not be read, or is incomplete.
func (u *Usage) Hide(part string, err error) {
	if err != nil {
		u.Hidden = append(u.Hidden, Unavailable{part, err.Error()})
	}
}

// Why returns why a part could not be read, or "".
func (u Usage) Why(part string) string {
	for _, h := range u.Hidden {
		if h.Part == part {
			return h.Why
		}
	}
	return ""
}

// Since adds the values that need two samples. If the driver only reports counters, a partition's
// busy percentage is the difference of Sum divided by that of Cycles.
func (u Usage) Since(before Usage) Usage {
	was := make(map[string]PartUse, len(before.Parts))
	for _, p := range before.Parts {
		was[p.Name] = p
	}
	now := u
	now.Parts = append(List[PartUse]{}, u.Parts...)
	for i := range now.Parts {
		p := &now.Parts[i]
		b, ok := was[p.Name]
		// The counters restart with a load of the driver, or after an overflow.
		if !ok || p.Busy != nil || b.Mode != p.Mode || p.Cycles <= b.Cycles || p.Sum < b.Sum {
			continue
		}
		if busy := float64(p.Sum-b.Sum) / float64(p.Cycles-b.Cycles); busy <= 100 {
			p.Busy = &busy
			p.Unknown = without(p.Unknown, KeyBusy)
		}
	}
	return now
}

func without(all map[string]string, key string) map[string]string {
	var out map[string]string
	for k, v := range all {
		if k == key {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[k] = v
	}
	return out
}
