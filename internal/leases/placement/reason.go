package placement

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

// reason describes a choice, and how many partitions of the same GPUs stay free.
func reason(picked, free []runstate.Part, w Want) string {
	if len(picked) == 0 {
		return "nothing is asked for"
	}
	parts := []string{shares(picked, w)}
	if domains := distinct(picked, func(p runstate.Part) string { return fmt.Sprint(p.GPU, p.Domain) }); domains == 1 && len(picked) > 1 && w.GPUs == 0 {
		parts = append(parts, "one memory domain")
	}
	parts = append(parts, numa(picked))
	chosen := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
	if w.Named {
		return chosen
	}
	left := perGPU(free)
	rest := -len(picked)
	for gpu := range perGPU(picked) {
		rest += left[gpu]
	}
	if w.GPUs > 0 {
		return fmt.Sprintf("%s; leaves %s free", chosen, text.Count(len(left)-w.GPUs, "whole GPU"))
	}
	return fmt.Sprintf("%s; leaves %d free", chosen, rest)
}

// shares describes how many partitions of which GPUs were chosen: "2 of 0000:05:00.0", "3 of
// 0000:05:00.0 and 1 of 0000:26:00.0", "1 of each of 8 GPUs".
func shares(picked []runstate.Part, w Want) string {
	per := perGPU(picked)
	gpus := order(per)
	if w.GPUs > 0 {
		return "all of " + partition.List(gpus)
	}
	var text []string
	for _, g := range gpus {
		text = append(text, fmt.Sprintf("%d of %s", per[g], g))
	}
	switch {
	case len(gpus) > 3 && distinct(gpus, func(g partition.Address) int { return per[g] }) == 1:
		return fmt.Sprintf("%d of each of %d GPUs", per[gpus[0]], len(gpus))
	case len(gpus) > 3:
		return fmt.Sprintf("%d of %d GPUs", len(picked), len(gpus))
	case len(gpus) > 1:
		return strings.Join(text[:len(text)-1], ", ") + " and " + text[len(text)-1]
	}
	return text[0]
}

func order(per map[partition.Address]int) []partition.Address {
	out := make([]partition.Address, 0, len(per))
	for g := range per {
		out = append(out, g)
	}
	sorting.By(out, partition.Address.Compare)
	return out
}

func numa(picked []runstate.Part) string {
	node := func(p runstate.Part) int { return p.NUMA }
	switch n := distinct(picked, node); {
	case n > 1:
		return fmt.Sprintf("%d NUMA nodes", n)
	case picked[0].NUMA < 0:
		return ""
	}
	return fmt.Sprintf("NUMA %d", picked[0].NUMA)
}

func distinct[T any, K comparable](list []T, key func(T) K) int {
	seen := make(map[K]bool)
	for _, v := range list {
		seen[key(v)] = true
	}
	return len(seen)
}

// AsGood reports whether a choice is at least as good for a place as another of the same size: it
// uses no more GPUs for [Pack], no fewer for [Spread], and costs no more for [Link].
func (c Choice) AsGood(other Choice, p Place) bool {
	mine, theirs := len(perGPU(c.Partitions)), len(perGPU(other.Partitions))
	switch p {
	case Spread:
		return mine >= theirs
	case Link:
		return c.Cost <= other.Cost
	}
	return mine <= theirs
}
