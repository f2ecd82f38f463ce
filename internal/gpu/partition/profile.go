package partition

import (
	"errors"
	"fmt"
	"slices"
)

// Profile is what an administrator selects: how a node's GPUs shall be divided, told
// without knowing which GPUs the node has. What it says of modes is for GPUs that have
// modes, and what it says of MIG for those that have MIG; others are left.
type Profile struct {
	Name    string
	Memory  Memory     // of the whole node; "" leaves it
	Compute Compute    // of the whole node; "" if Groups says it, or nobody
	MIG     *MIG       // of the whole node, without places; nil if Groups says it, or nobody
	Skip    []Selector // GPUs to leave as they are
	Groups  []Group    // taken in order
}

// Group gives one shape to some of a node's GPUs: the ones it names, or the next Count
// in PCI order, or all that are left but for those that groups after it count. Only
// GPUs that have such shapes, and that pass the filter, are meant.
type Group struct {
	Compute Compute
	MIG     *MIG
	Family  Family // instead of MIG
	Devices []Filter
	GPUs    []Selector
	Count   int
	Rest    bool
}

// Filter is a board by its PCI ids; 0 is any.
type Filter struct{ Device, SubDevice, SubVendor uint16 }

func (f Filter) matches(g GPU) bool {
	return f.Device == g.Device && (f.SubDevice == 0 || f.SubDevice == g.SubDevice) && (f.SubVendor == 0 || f.SubVendor == g.SubVendor)
}

// ByMIG tells whether the group is for GPUs with MIG.
func (g Group) ForMIG() bool { return g.MIG != nil || g.Family != "" }

// takes tells whether the GPU may be one of the group.
func (g Group) accepts(one GPU) bool {
	return g.MatchesFilter(one) && g.ForMIG() == (one.MIG != nil)
}

// Passes reports whether the filter of the group passes the GPU.
func (g Group) MatchesFilter(one GPU) bool {
	return len(g.Devices) == 0 || slices.ContainsFunc(g.Devices, func(f Filter) bool { return f.matches(one) })
}

// Layout is a profile resolved against the GPUs of a node: the shape wanted
// of each of them.
type Layout struct {
	Shapes  map[Address]Shape // for every GPU; skipped ones with the shape they had
	Skipped map[Address]bool
}

// Layout resolves the profile against the GPUs seen. It returns every
// contradiction at once: a selector that names no GPU, a GPU named twice, more
// GPUs asked for than there are, a GPU with modes that no group covers.
//
// A skipped GPU is pinned to the shape it has, because a driver reload on behalf
// of the others resets it too.
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
	// Named GPUs first, so that "the next two" never takes one named later.
	for i, group := range groups {
		for _, s := range group.GPUs {
			if g, ok := r.takeSelected(s, fmt.Sprintf("group %d", i+1), group.sameKind(), group.accepts); ok {
				l.Shapes[g.Address] = r.shape(p, group, g)
			}
		}
	}
	for i := range groups {
		for _, g := range r.takeNext(groups, i) {
			l.Shapes[g.Address] = r.shape(p, groups[i], g)
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

// groups are the profile's, with one more for each side of it that is of the whole
// node.
func (p Profile) allGroups() []Group {
	groups := slices.Clone(p.Groups)
	if p.Compute != "" || p.Memory != "" && !slices.ContainsFunc(groups, func(g Group) bool { return !g.ForMIG() }) {
		groups = append(groups, Group{Compute: p.Compute, Rest: true})
	}
	if p.MIG != nil {
		groups = append(groups, Group{MIG: p.MIG, Rest: true})
	}
	return groups
}

// mode is what the profile wants of g as a member of group; what the profile
// does not name stays as it is.
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

// Names tells whether the profile names the GPU by its address.
func (p Profile) NamesGPU(a Address) bool {
	named := func(list []Selector) bool {
		return slices.ContainsFunc(list, func(s Selector) bool { return s.Address == a })
	}
	return named(p.Skip) || slices.ContainsFunc(p.Groups, func(g Group) bool { return named(g.GPUs) })
}

// Now returns the layout that gpus have: what a rollback goes back to. A switch of MIG
// that somebody has requested before stays so.
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
