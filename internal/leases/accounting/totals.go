package accounting

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"dcm/internal/sorting"
)

// Total is the usage of a user, unit or GPU.
type Total struct {
	Name    string  `json:"name"`              // of the user, unit or GPU; "" for services among users
	Seconds float64 `json:"partition_seconds"` // partitions multiplied by their time
	Runs    int     `json:"runs"`              // leases, and runs of reserved services

	// The following are of those runs that lie in the interval and have the value; nil if none has.

	Busy       *float64 `json:"busy_percent,omitempty"`      // mean utilisation of the partitions of leases, weighted by their time
	Energy     *float64 `json:"energy_joules,omitempty"`     // of leases of whole GPUs, which others cannot use
	PeakMemory *uint64  `json:"peak_memory_bytes,omitempty"` // largest host memory of one run

	busy, busySeconds float64
}

// addUsed adds what a run, or its partitions on one GPU, used.
func (t *Total) addUsed(busy map[string]float64, energy map[string]float64, seconds float64, peak uint64) {
	for _, percent := range busy {
		t.busy += percent * seconds
		t.busySeconds += seconds
	}
	if t.busySeconds > 0 {
		mean := t.busy / t.busySeconds
		t.Busy = &mean
	}
	for _, joules := range energy {
		if t.Energy == nil {
			t.Energy = new(float64)
		}
		*t.Energy += joules
	}
	if peak > 0 && (t.PeakMemory == nil || peak > *t.PeakMemory) {
		t.PeakMemory = &peak
	}
}

// Groupings returns the values of the option --by.
func Groupings() []string { return []string{"user", "unit", "gpu"} }

// Totals returns the usage in an interval by user, unit or GPU, the largest first. userName returns the
// name of a user.
func Totals(runs []Run, by string, since, until time.Time, userName func(uid uint32) string) []Total {
	names := make(map[string]int)
	out := []Total{}
	add := func(name string, seconds float64) *Total {
		i, ok := names[name]
		if !ok {
			i, names[name] = len(out), len(out)
			out = append(out, Total{Name: name})
		}
		out[i].Seconds += seconds
		out[i].Runs++
		return &out[i]
	}
	for _, r := range runs {
		if r.Ended.Before(since) {
			continue
		}
		whole := !r.Began.Before(since) && !r.Ended.After(until)
		lasted := r.Ended.Sub(r.Began).Seconds()
		if by == "gpu" {
			for gpu, share := range gpusOf(r.Partitions) {
				if t := add(gpu, r.Seconds(since, until)*share); whole {
					t.addUsed(only(r.Used.Busy, gpu), only(r.Used.Energy, gpu), lasted, 0)
				}
			}
			continue
		}
		name := r.Unit
		if by == "user" {
			name = ""
			if uid, ok := r.Lease(); ok {
				name = userName(uid)
			}
		}
		if t := add(name, r.Seconds(since, until)); whole {
			t.addUsed(r.Used.Busy, r.Used.Energy, lasted, r.PeakMemory)
		}
	}
	sorting.By(out, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), strings.Compare(a.Name, b.Name))
	})
	return out
}

// gpusOf returns the GPUs of partitions, and the part of the partitions that each has.
func gpusOf(partitions []string) map[string]float64 {
	out := make(map[string]float64)
	for _, name := range partitions {
		out[gpuOf(name)] += 1 / float64(len(partitions))
	}
	return out
}

// gpuOf returns the GPU of a partition. The name of a GPU stays as it is.
func gpuOf(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		return name[:i]
	}
	return name
}

// only returns the values of one GPU and its partitions.
func only(values map[string]float64, gpu string) map[string]float64 {
	out := make(map[string]float64)
	for name, v := range values {
		if gpuOf(name) == gpu {
			out[name] = v
		}
	}
	return out
}

// Named reports whether an option --by has a value that [Totals] knows.
func Named(by string) bool { return slices.Contains(Groupings(), by) }
