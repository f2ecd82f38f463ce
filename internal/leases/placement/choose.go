package placement

import (
	"fmt"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// Want is a request for partitions or, if GPUs is not 0, for whole GPUs.
type Want struct {
	Partitions int
	GPUs       int
	Place      Place               // [Pack] if it is ""
	Among      []partition.Address // the GPUs to choose from; nil for all
	Kinds      []string            // the kinds (see [runstate.Part]) to choose from; nil for all
	Names      []string            // the partitions to choose from; nil for all
	Named      bool                // the request names its GPUs or partitions: Among or Names has exactly as many as it wants

	// Late are the GPUs to avoid. A GPU with a number is chosen only if those with lower numbers do not suffice;
	// the number of other GPUs is 0, and the largest is [MaxLate].
	Late map[partition.Address]int
}

// MaxLate is the largest number in [Want.Late].
const MaxLate = 2

// lateWeight makes one partition of a GPU with a number worse than all partitions of a node with lower ones.
const lateWeight = 1 << 12

// cell identifies the partitions of one kind in one GPU. They are interchangeable.
type cell struct {
	gpu  partition.Address
	kind string
}

func cellOf(p runstate.Part) cell { return cell{p.GPU, p.Kind} }

// takes reports whether the request permits partitions of a cell.
func (w Want) takes(c cell) bool {
	return (w.Among == nil || slices.Contains(w.Among, c.gpu)) && (w.Kinds == nil || slices.Contains(w.Kinds, c.kind))
}

func (w Want) place() Place {
	if w.Place == "" {
		return Pack
	}
	return w.Place
}

func (w Want) amount() (n int, of string) {
	if w.GPUs > 0 {
		return w.GPUs, "whole GPU"
	}
	return w.Partitions, "partition"
}

// Permits reports whether the request permits a partition.
func (w Want) Permits(p runstate.Part) bool {
	return w.takes(cellOf(p)) && (w.Names == nil || slices.Contains(w.Names, p.Name))
}

// Choice is the result of [Choose].
type Choice struct {
	Partitions []runstate.Part // by GPU in PCI order, then by index
	Cost       int             // the sum of the [Cost] between each two
	Reason     string          // "2 of 0000:05:00.0, one memory domain, NUMA 0; leaves 6 free"
}

// ShortError is returned if fewer partitions or GPUs are free than requested.
type ShortError struct {
	Want Want
	Free int // number of free partitions, or of completely free GPUs, that the request permits
	Of   int // number of partitions or GPUs that the request permits, free or not
}

func (e *ShortError) Error() string {
	if e.Want.Named {
		return e.Want.namedShort(e.Free)
	}
	n, of := e.Want.amount()
	return fmt.Sprintf("%s requested, but %d of %d %s free", text.Count(n, of), e.Free, e.Of, are(e.Free))
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Choose chooses among the partitions of a node that are not taken. It is deterministic and
// optimal: no other choice has a better score for the requested place. Its only error is [ShortError].
func Choose(node []runstate.Part, taken map[string]bool, w Want) (Choice, error) {
	mine := among(node, w)
	whole := w.GPUs > 0
	if whole {
		mine = wholly(node, mine) // without GPUs of which the request excludes partitions
	}
	free := slices.DeleteFunc(slices.Clone(mine), func(p runstate.Part) bool { return taken[p.Name] })
	of := len(mine)
	if whole {
		of = len(perGPU(mine))
		free = wholly(mine, free)
	}
	root := grow(free, whole, w.Late)
	n, _ := w.amount()
	if n > root.room {
		return Choice{}, &ShortError{w, root.room, of}
	}
	picked := w.place().solve(root, 0, n).pick(n)
	return Choice{picked, Sum(picked), reason(picked, free, w)}, nil
}

// Sum returns the cost of a set of partitions: the sum of [Cost] for each pair.
func Sum(set []runstate.Part) int {
	sum := 0
	for i, a := range set {
		for _, b := range set[:i] {
			sum += Cost(a, b)
		}
	}
	return sum
}

// among returns the partitions that the request permits.
func among(node []runstate.Part, w Want) []runstate.Part {
	if w.Among == nil && w.Kinds == nil && w.Names == nil {
		return node
	}
	return slices.DeleteFunc(slices.Clone(node), func(p runstate.Part) bool { return !w.Permits(p) })
}

// wholly returns the partitions of some whose GPU has all its partitions in some.
func wholly(all, some []runstate.Part) []runstate.Part {
	total, left := perGPU(all), perGPU(some)
	return slices.DeleteFunc(slices.Clone(some), func(p runstate.Part) bool { return total[p.GPU] != left[p.GPU] })
}

func perGPU(list []runstate.Part) map[partition.Address]int {
	out := make(map[partition.Address]int)
	for _, p := range list {
		out[p.GPU]++
	}
	return out
}
