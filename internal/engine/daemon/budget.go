package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// Budget limits how many units are down at the same time.
type Budget struct {
	Units   []string // patterns of unit names, in which * is any text
	MaxDown int
}

func (b Budget) String() string { return "budget of " + strings.Join(b.Units, ", ") }

// counts reports whether the unit belongs to the budget.
func (b Budget) counts(unit string) bool {
	return slices.ContainsFunc(b.Units, func(pattern string) bool { return matches(pattern, unit) })
}

// matches reports whether the name is that of a pattern, in which * is any text.
func matches(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, head)
	if !star || !ok {
		return ok && name == ""
	}
	for i := range len(name) + 1 {
		if matches(rest, name[i:]) {
			return true
		}
	}
	return false
}

// part is GPUs that change in the same round, and the units that their change restarts.
type part struct {
	gpus   []partition.Address
	units  []string
	starts []string // those of the units that an earlier run has left down, and that start only after this change
}

// selection is the choice of the GPUs of the next round of a change.
type selection struct {
	parts   []part // in PCI order
	budgets []Budget
	down    map[string]string // the units that are down, and why
	single  bool              // one part in a round, and no other unit is down then
}

// next returns the parts of the next round, in PCI order: each for which the budgets have room.
func (s selection) next() []part {
	var round []part
	var units []string
	for _, p := range s.parts {
		if s.exceeded(slices.Concat(units, p.units)) != nil || s.single && !s.rest(p) {
			continue
		}
		round, units = append(round, p), append(units, p.units...)
		if s.single {
			break
		}
	}
	return round
}

// rest reports whether no unit is down that the part does not restart. A part that stops no unit need not wait for
// units that other parts start.
func (s selection) rest(p part) bool {
	stops := slices.ContainsFunc(p.units, func(unit string) bool { _, down := s.down[unit]; return !down })
	for unit := range s.down {
		later := slices.ContainsFunc(s.parts, func(q part) bool { return slices.Contains(q.starts, unit) })
		if !slices.Contains(p.units, unit) && (stops || !later) {
			return false
		}
	}
	return true
}

// exceeded returns a budget that the stop of the units would exceed, nil if there is none. A unit that
// is already down needs no room.
func (s selection) exceeded(units []string) *Budget {
	for i, b := range s.budgets {
		down := s.downOf(b)
		before := len(down)
		for _, u := range units {
			if b.counts(u) {
				down[u] = ""
			}
		}
		if len(down) > before && len(down) > b.MaxDown {
			return &s.budgets[i]
		}
	}
	return nil
}

// downOf returns the units of the budget that are down, and why.
func (s selection) downOf(b Budget) map[string]string {
	down := maps.Clone(s.down)
	if down == nil {
		down = make(map[string]string)
	}
	maps.DeleteFunc(down, func(unit, _ string) bool { return !b.counts(unit) })
	return down
}

// impossible returns a part that exceeds a budget even if no unit is down, and this budget.
func (s selection) impossible() (*part, *Budget) {
	all := selection{budgets: s.budgets}
	for i, p := range s.parts {
		if b := all.exceeded(p.units); b != nil && s.exceeded(p.units) != nil {
			return &s.parts[i], b
		}
	}
	return nil, nil
}

// reasons describes why the units are down, in the order of their names, at most three.
func reasons(down map[string]string) string {
	const most = 3
	var out []string
	for _, unit := range slices.Sorted(maps.Keys(down)) {
		if len(out) == most {
			out = append(out, fmt.Sprintf("and %d more", len(down)-most))
			break
		}
		out = append(out, unit+" ("+down[unit]+")")
	}
	return strings.Join(out, ", ")
}

// merge joins the parts that restart the same unit, so that it starts once, unless the joined part would
// exceed a budget. shared reports whether the unit counts for that.
func merge(parts []part, budgets []Budget, shared func(unit string) bool) []part {
	var out []part
	for _, group := range connected(parts, shared) {
		joined := merged(group)
		if len(group) > 1 && (selection{budgets: budgets}).exceeded(joined.units) != nil {
			out = append(out, group...)
			continue
		}
		out = append(out, joined)
	}
	slices.SortStableFunc(out, func(a, b part) int { return strings.Compare(string(a.gpus[0]), string(b.gpus[0])) })
	return out
}

// merged returns one part with the GPUs and units of several.
func merged(parts []part) part {
	var out part
	for _, p := range parts {
		out.gpus, out.starts = append(out.gpus, p.gpus...), append(out.starts, p.starts...)
		for _, u := range p.units {
			if !slices.Contains(out.units, u) {
				out.units = append(out.units, u)
			}
		}
	}
	slices.Sort(out.gpus)
	return out
}

// connected returns the parts in groups that share no unit with each other.
func connected(parts []part, shared func(unit string) bool) [][]part {
	var groups [][]part
	for _, p := range parts {
		group := []part{p}
		var rest [][]part
		for _, g := range groups {
			if slices.ContainsFunc(g, func(q part) bool { return overlap(p, q, shared) }) {
				group = append(g, group...)
			} else {
				rest = append(rest, g)
			}
		}
		groups = append(rest, group)
	}
	return groups
}

func overlap(p, q part, shared func(unit string) bool) bool {
	return slices.ContainsFunc(p.units, func(u string) bool { return shared(u) && slices.Contains(q.units, u) })
}
