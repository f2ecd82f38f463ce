package placement

import (
	"slices"

	"dcm/internal/engine/runstate"
)

// score rates a choice: lower is better, and earlier numbers count first. It is the sum of a
// score for each node of the tree, which depends only on how many partitions are taken below that
// node. So the best choice below a node consists of best choices below its children, and
// [Place.solve] finds the optimum by dynamic programming.
type score [5]int

func (s score) plus(t score) score {
	for i := range s {
		s[i] += t[i]
	}
	return s
}

func (s score) less(t score) bool { return slices.Compare(s[:], t[:]) < 0 }

// pairs returns the number of pairs of n items.
func pairs(n int) int { return n * (n - 1) / 2 }

// score returns the score of one node if n partitions are taken below it. cost is the cost of the
// node minus that of its parent. The sum of these differences from the root to the lowest node that
// contains both partitions of a pair is the cost of the pair.
func (p Place) score(t *tree, cost, n int) score {
	if n == 0 {
		return score{}
	}
	gpu, numa := t.level == atGPU, t.level == atNUMA
	late, way := t.late*n, cost*pairs(n)
	switch p {
	case Spread:
		return score{late, when(gpu, pairs(n)), when(t.level == atDomain, pairs(n)), when(numa, pairs(n)), when(gpu, n-t.room)}
	case Link:
		return score{late, way, when(gpu, t.room-n)}
	}
	return score{late, when(gpu, 1), when(numa, 1), when(gpu, t.room-n), way}
}

// when returns n if the condition holds, otherwise 0.
func when(is bool, n int) int {
	if is {
		return n
	}
	return 0
}

// table contains the best choices in a subtree, for each number of partitions from 0 to the
// requested one.
type table struct {
	of    *tree
	best  []score // by number of partitions
	taken [][]int // by number of partitions: how many of them are below each child
	below []table // of the children
}

// solve returns the best choices of up to n partitions below t. above is the cost of t's parent.
// Of several equally good choices it takes the first in PCI order. Its time is proportional to the
// number of nodes times n².
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

// join adds the table of another child.
func (s *table) join(c table, n int) {
	size := min(n, len(s.best)-1+len(c.best)-1) + 1
	best, taken := make([]score, size), make([][]int, size)
	for k := range size {
		// The loop starts with few partitions of the later child, so that of equally good choices
		// the one with more partitions of the earlier children is kept.
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

// pick returns the n partitions of the best choice of n.
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
