package placement

import (
	"slices"

	"dcm/internal/engine/runstate"
)

// score says how bad a choice is; the earlier numbers count first. It is a sum over
// the nodes of the tree, each of which adds what depends on how many partitions are
// taken below it. So the best choice below a node is made of best choices below its
// children, and [tree.solve] finds it exactly.
type score [4]int

func (s score) plus(t score) score {
	for i := range s {
		s[i] += t[i]
	}
	return s
}

func (s score) less(t score) bool { return slices.Compare(s[:], t[:]) < 0 }

// pairs is how many pairs n things have.
func pairs(n int) int { return n * (n - 1) / 2 }

// score is what a node adds when n are taken below it. cost is the node's cost less
// its parent's: summed up from a pair's lowest common node to the root this leaves
// what that node costs.
func (p Place) score(t *tree, cost, n int) score {
	if n == 0 {
		return score{}
	}
	gpu, numa := t.level == atGPU, t.level == atNUMA
	way := cost * pairs(n)
	switch p {
	case Spread:
		return score{when(gpu, pairs(n)), when(t.level == atDomain, pairs(n)), when(numa, pairs(n)), when(gpu, n-t.room)}
	case Link:
		return score{way, when(gpu, t.room-n)}
	}
	return score{when(gpu, 1), when(numa, 1), when(gpu, t.room-n), way}
}

func when(is bool, n int) int {
	if is {
		return n
	}
	return 0
}

// table is what is known of a subtree: for each number of partitions, up to the one
// asked for, the best score and how many are then taken below each child.
type table struct {
	of    *tree
	best  []score
	taken [][]int
	below []table
}

// solve finds the best choices of up to n partitions below t, whose parent costs
// above. Equals go to the first in PCI order. It takes time in the number of nodes
// times n².
func (p Place) solve(t *tree, above, n int) table {
	n = min(n, t.room)
	sum := table{of: t, best: make([]score, 1), taken: make([][]int, 1)}
	if len(t.children) == 0 {
		sum.best, sum.taken = make([]score, n+1), make([][]int, n+1)
	}
	for _, c := range t.children {
		sum.join(p.solve(c, t.cost, n), n)
	}
	for k := range sum.best {
		sum.best[k] = sum.best[k].plus(p.score(t, t.cost-above, k))
	}
	return sum
}

// join adds another child.
func (s *table) join(c table, n int) {
	size := min(n, len(s.best)-1+len(c.best)-1) + 1
	best, taken := make([]score, size), make([][]int, size)
	for k := range size {
		// Little to the later child first, so that equals go to the earlier ones.
		for below := max(0, k-len(s.best)+1); below < len(c.best) && below <= k; below++ {
			sum := s.best[k-below].plus(c.best[below])
			if taken[k] == nil || sum.less(best[k]) {
				best[k] = sum
				taken[k] = append(slices.Clone(s.taken[k-below]), below)
			}
		}
	}
	s.best, s.taken, s.below = best, taken, append(s.below, c)
}

// pick returns the partitions of the best choice of n.
func (s table) pick(n int) []runstate.Part {
	if n == 0 {
		return nil
	}
	if len(s.below) == 0 {
		if n == s.of.room && s.of.level == atGPU {
			return s.of.free // a GPU as a whole
		}
		return s.of.free[:n]
	}
	var out []runstate.Part
	for i, c := range s.below {
		out = append(out, c.pick(s.taken[n][i])...)
	}
	return out
}
