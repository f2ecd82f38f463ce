package partition

import (
	"errors"
	"fmt"
	"slices"
)

// resolver assigns the GPUs of a node to the groups of a profile.
type resolver struct {
	gpus  []GPU
	taken map[Address]string // the selector or group that has the GPU
	errs  []error

	missing bool // a selector names a GPU that is missing
}

func (r *resolver) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// gpuFilter selects GPUs of a node. An index counts among the selected ones.
type gpuFilter func(GPU) bool

func (g Group) sameKind() gpuFilter {
	return func(one GPU) bool { return g.ForMIG() == (one.MIG != nil) }
}

// coveredBy selects the GPUs whose kind (modes or MIG) one of the groups is for.
func (r *resolver) coveredBy(groups []Group) gpuFilter {
	return func(one GPU) bool {
		return slices.ContainsFunc(groups, func(g Group) bool { return g.sameKind()(one) })
	}
}

func (r *resolver) matching(in gpuFilter) []GPU {
	return slices.DeleteFunc(slices.Clone(r.gpus), func(g GPU) bool { return !in(g) })
}

// takeSelected takes the GPU that s names if it passes. An index counts among the GPUs of
// in, and the missing ones of their vendor. It takes none for a GPU that is missing: the other GPUs
// get their shapes without it. A GPU that does not pass stays available, since one index may mean different boards.
func (r *resolver) takeSelected(s Selector, by string, in gpuFilter, passes func(GPU) bool) (GPU, bool) {
	gpus := r.matching(in)
	if s.Address != "" {
		gpus = r.gpus
	} else if mixed(gpus) {
		r.fail("%s: GPU %s is ambiguous, since AMD and NVIDIA GPUs are counted separately: use the PCI address", by, s)
		return GPU{}, false
	}
	i, err := s.find(gpus)
	if len(gpus) == 0 && slices.ContainsFunc(r.gpus, func(g GPU) bool { return len(g.Missing) > 0 }) {
		err = &MissingError{Selector: s} // all GPUs of the vendor are
	}
	if _, missing := errors.AsType[*MissingError](err); missing {
		r.missing = true
		return GPU{}, false
	}
	if err != nil {
		r.fail("%s: %w", by, err)
		return GPU{}, false
	}
	g := gpus[i]
	if !passes(g) {
		return GPU{}, false
	}
	if other := r.taken[g.Address]; other != "" {
		r.fail("%s: GPU %s is already named by %s", by, s, other)
		return GPU{}, false
	}
	r.taken[g.Address] = by
	return g, true
}

func mixed(gpus []GPU) bool {
	return slices.ContainsFunc(gpus, func(g GPU) bool { return (g.MIG != nil) != (gpus[0].MIG != nil) })
}

func (r *resolver) untaken() []GPU {
	return slices.DeleteFunc(slices.Clone(r.gpus), func(g GPU) bool { return r.taken[g.Address] != "" })
}

// takeNext takes the GPUs of the i-th group.
func (r *resolver) takeNext(groups []Group, i int) []GPU {
	group := groups[i]
	free := slices.DeleteFunc(r.untaken(), func(g GPU) bool { return !group.accepts(g) })
	switch {
	case group.Rest:
		kept := r.keptForLater(groups[i+1:])
		free = slices.DeleteFunc(free, func(g GPU) bool { return kept[g.Address] })
	case group.Count > len(free):
		all := r.matching(func(g GPU) bool { return group.accepts(g) })
		r.fail("group %d: too many GPUs (found %d, want at most %d of %d)", i+1, group.Count, len(free), len(all))
		return nil
	default:
		free = free[:group.Count]
	}
	for _, g := range free {
		r.taken[g.Address] = fmt.Sprintf("group %d", i+1)
	}
	return free
}

// keptForLater returns the GPUs that groups after a rest group need: the last ones, up to
// their count, and those that a later rest group selects by a filter.
func (r *resolver) keptForLater(groups []Group) map[Address]bool {
	kept := make(map[Address]bool)
	for _, group := range slices.Backward(groups) {
		n := group.Count
		for _, g := range slices.Backward(r.untaken()) {
			if kept[g.Address] || !group.accepts(g) || n == 0 && (!group.Rest || len(group.Devices) == 0) {
				continue
			}
			kept[g.Address] = true
			n--
		}
	}
	return kept
}

// checkCoverage adds an error for GPUs with modes in no group, and for a profile that
// matches no GPU, since a run would report success and change nothing.
func (r *resolver) checkCoverage(groups []Group) {
	if len(r.errs) > 0 {
		return
	}
	left := slices.DeleteFunc(r.untaken(), func(g GPU) bool { return g.MIG != nil || !r.coveredBy(groups)(g) })
	if len(left) > 0 {
		r.fail("%s in no group (%s): add a group with count = \"rest\", or skip them", map[bool]string{true: "1 GPU is", false: fmt.Sprintf("%d GPUs are", len(left))}[len(left) == 1], listFew(addresses(left)))
	}
	if len(r.gpus) > 0 && len(r.taken) == 0 && len(groups) > 0 && !r.missing {
		r.fail("its groups match no GPU of this node (found %s, want %s)", boardNames(r.gpus), groupTargets(groups))
	}
}

// boardNames lists the different boards of the GPUs: "MI300X, H100-80GB".
func boardNames(gpus []GPU) string {
	var list []string
	for _, g := range gpus {
		name := fmt.Sprintf("0x%04x", g.Device)
		if m, ok := LookupModel(g.Vendor, g.Device); ok {
			name = m.Name
		} else if b, ok := BoardOf(g); ok {
			name = b.Name
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return List(list)
}

// groupTargets names the kinds and the filters of GPUs that the groups are for.
func groupTargets(groups []Group) string {
	var list []string
	add := func(what string) {
		if !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	for _, g := range groups {
		switch {
		case !g.ForMIG():
			add("AMD GPUs with modes")
		case len(g.Devices) == 0:
			add("NVIDIA GPUs with MIG")
		}
		for _, f := range g.Devices {
			add(fmt.Sprintf("device 0x%04x", f.Device))
		}
	}
	return List(list)
}

// shape returns the wanted shape of g as a member of group.
func (r *resolver) shape(p Profile, group Group, g GPU) Shape {
	if !group.ForMIG() {
		m := p.targetMode(group, g)
		if group.Dynamic {
			m = g.withMadeMode(m)
		}
		return Shape{Mode: m, Settings: group.or(p.Settings).or(g.kept())}
	}
	if group.Dynamic && group.MIG != nil {
		m := g.withMade(*group.MIG)
		return Shape{MIG: &m}
	}
	if group.MIG != nil {
		return Shape{MIG: group.MIG}
	}
	m, err := group.Family.geometry(g)
	if err != nil {
		r.fail("%s: %w", g.Address, err)
	}
	return Shape{MIG: &m}
}
