package partition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Profile is the partitioning that an administrator selects, independent of the GPUs of a
// node. Its modes apply to GPUs with modes, its MIG geometries to GPUs with MIG. Other GPUs
// stay unchanged.
type Profile struct {
	Name     string
	Memory   Memory     // of the whole node; "": unchanged
	Compute  Compute    // of the whole node; "" if Groups has it, or nothing
	Settings            // of GPUs with modes; "": as before the change
	MIG      *MIG       // of the whole node, without placements; nil if Groups has it, or nothing
	Skip     []Selector // GPUs that stay unchanged
	Groups   []Group    // evaluated in order
}

// Group gives one shape to some GPUs of a node: those it names, or the next Count in PCI
// order, or the rest. The rest excludes GPUs that later groups count. Only GPUs of the right
// kind (modes or MIG) that match the filter belong to a group.
type Group struct {
	Compute  Compute
	Settings // "": that of the profile
	MIG      *MIG
	Family   Family // instead of MIG
	Devices  []Filter
	GPUs     []Selector
	Count    int
	Rest     bool
	Dynamic  bool // leases make instances next to MIG, see [GPU.Made], or switch the compute mode, see [GPU.MadeMode]
}

// Filter selects a board by its PCI ids; 0 matches any id.
type Filter struct{ Device, SubDevice, SubVendor uint16 }

func (f Filter) matches(g GPU) bool {
	return f.Device == g.Device && (f.SubDevice == 0 || f.SubDevice == g.SubDevice) && (f.SubVendor == 0 || f.SubVendor == g.SubVendor)
}

// ForMIG reports whether the group is for GPUs with MIG.
func (g Group) ForMIG() bool { return g.MIG != nil || g.Family != "" }

// accepts reports whether the GPU can belong to the group.
func (g Group) accepts(one GPU) bool {
	return g.MatchesFilter(one) && g.ForMIG() == (one.MIG != nil)
}

// MatchesFilter reports whether the GPU matches the filter of the group.
func (g Group) MatchesFilter(one GPU) bool {
	return len(g.Devices) == 0 || slices.ContainsFunc(g.Devices, func(f Filter) bool { return f.matches(one) })
}

// Layout is a profile resolved for the GPUs of a node.
type Layout struct {
	Shapes  map[Address]Shape // of every GPU; a skipped GPU has its current shape
	Skipped map[Address]bool
	Dynamic map[Address]bool // the GPUs that leases divide; nil for none
}

// DynamicAmong reports whether a GPU is dynamic and one of the listed GPUs; none listed: any.
func (l Layout) DynamicAmong(list []Address, a Address) bool {
	return l.Dynamic[a] && (len(list) == 0 || slices.Contains(list, a))
}

// Layout resolves the profile for the GPUs. It returns all contradictions in one error: a
// selector without a GPU, a GPU that is named twice, a count that exceeds the GPUs, a GPU
// with modes in no group.
//
// A skipped GPU gets its current shape, since a driver reload for other GPUs resets it too.
func (p Profile) Layout(gpus []GPU) (Layout, error) {
	r := resolver{gpus: byAddress(gpus), taken: make(map[Address]string)}
	l := Layout{Shapes: make(map[Address]Shape), Skipped: make(map[Address]bool)}
	leave := func(g GPU) { l.Skipped[g.Address], l.Shapes[g.Address] = true, g.Shape() }
	groups := p.allGroups()
	for _, s := range p.Skip {
		if g, ok := r.takeSelected(s, "skip", r.coveredBy(groups), func(GPU) bool { return true }); ok {
			leave(g)
		}
	}
	// Named GPUs come first, so that a count never takes a GPU that a later group names.
	for i, group := range groups {
		for _, s := range group.GPUs {
			if g, ok := r.takeSelected(s, fmt.Sprintf("group %d", i+1), group.sameKind(), group.accepts); ok {
				l.set(g, group, r.shape(p, group, g))
			}
		}
	}
	for i := range groups {
		for _, g := range r.takeNext(groups, i) {
			l.set(g, groups[i], r.shape(p, groups[i], g))
		}
	}
	r.checkCoverage(groups)
	for _, g := range r.untaken() {
		leave(g)
	}
	if err := errors.Join(r.errs...); err != nil {
		return Layout{}, fmt.Errorf("profile %q does not fit this node: %w", p.Name, err)
	}
	return l, nil
}

// set sets the wanted shape of a GPU as a member of a group.
func (l *Layout) set(g GPU, group Group, s Shape) {
	l.Shapes[g.Address] = s
	if !group.Dynamic {
		return
	}
	if l.Dynamic == nil {
		l.Dynamic = make(map[Address]bool)
	}
	l.Dynamic[g.Address] = true
}

// allGroups returns the groups of the profile, and one more for each shape that it has for
// the whole node.
func (p Profile) allGroups() []Group {
	groups := slices.Clone(p.Groups)
	if p.Compute != "" || (p.Memory != "" || p.Settings != Settings{}) && !slices.ContainsFunc(groups, func(g Group) bool { return !g.ForMIG() }) {
		groups = append(groups, Group{Compute: p.Compute, Rest: true})
	}
	if p.MIG != nil {
		groups = append(groups, Group{MIG: p.MIG, Rest: true})
	}
	return groups
}

// Combine returns the profile that has the groups of two: one for GPUs with modes and one for GPUs with MIG.
func Combine(name string, a, b Profile) (Profile, error) {
	mig := func(p Profile) (all, any bool) {
		any = slices.ContainsFunc(p.allGroups(), Group.ForMIG)
		return any && !slices.ContainsFunc(p.allGroups(), func(g Group) bool { return !g.ForMIG() }), any
	}
	onlyA, someA := mig(a)
	onlyB, someB := mig(b)
	if (!onlyA || someB) && (!onlyB || someA) {
		return Profile{}, fmt.Errorf("profile %q: one part must be for AMD GPUs and the other for NVIDIA GPUs (found %s, want only one of them for MIG)", name, List([]string{a.String(), b.String()}))
	}
	return Profile{
		Name: name, Memory: cmp.Or(a.Memory, b.Memory),
		Skip: slices.Concat(a.Skip, b.Skip), Groups: slices.Concat(a.allGroups(), b.allGroups()),
	}, nil
}

// targetMode returns the modes of g as a member of group. What the profile does not name
// stays unchanged.
func (p Profile) targetMode(group Group, g GPU) Mode {
	m := g.Mode()
	if group.Compute != "" {
		m.Compute = group.Compute
	}
	if p.Memory != "" {
		m.Memory = p.Memory
	}
	return m
}

// NamesGPU reports whether the profile names the GPU by its address.
func (p Profile) NamesGPU(a Address) bool {
	named := func(list []Selector) bool {
		return slices.ContainsFunc(list, func(s Selector) bool { return s.Address == a })
	}
	return named(p.Skip) || slices.ContainsFunc(p.Groups, func(g Group) bool { return named(g.GPUs) })
}

// CurrentLayout returns the current layout, which is the target of a rollback. A switch of
// MIG that was pending before stays pending.
func CurrentLayout(gpus []GPU) Layout {
	l := Layout{Shapes: make(map[Address]Shape, len(gpus)), Skipped: make(map[Address]bool)}
	for _, g := range gpus {
		l.Shapes[g.Address] = g.Shape()
		if g.MIGPending {
			l.Skipped[g.Address] = true
		}
	}
	return l
}
