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
}

// Groupings returns the values of the option --by.
func Groupings() []string { return []string{"user", "unit", "gpu"} }

// Totals returns the usage in an interval by user, unit or GPU, the largest first. userName returns the
// name of a user.
func Totals(runs []Run, by string, since, until time.Time, userName func(uid uint32) string) []Total {
	names := make(map[string]int)
	out := []Total{}
	add := func(name string, seconds float64) {
		i, ok := names[name]
		if !ok {
			i, names[name] = len(out), len(out)
			out = append(out, Total{Name: name})
		}
		out[i].Seconds += seconds
		out[i].Runs++
	}
	for _, r := range runs {
		if r.Ended.Before(since) {
			continue
		}
		switch uid, ok := r.Lease(); {
		case by == "gpu":
			for gpu, share := range gpusOf(r.Partitions) {
				add(gpu, r.Seconds(since, until)*share)
			}
		case by == "user" && ok:
			add(userName(uid), r.Seconds(since, until))
		case by == "user":
			add("", r.Seconds(since, until))
		default:
			add(r.Unit, r.Seconds(since, until))
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
		if i := strings.LastIndexByte(name, '-'); i >= 0 {
			name = name[:i]
		}
		out[name] += 1 / float64(len(partitions))
	}
	return out
}

// Named reports whether an option --by has a value that [Totals] knows.
func Named(by string) bool { return slices.Contains(Groupings(), by) }
