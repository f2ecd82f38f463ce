package partition

import (
	"fmt"
	"slices"
)

// resolver hands a node's GPUs to the groups of a profile.
type resolver struct {
	gpus  []GPU
	taken map[Address]string // what named the GPU
	errs  []error
}

func (r *resolver) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// side is some of a node's GPUs: those among which an index counts.
type gpuFilter func(GPU) bool

func (g Group) sameKind() gpuFilter {
	return func(one GPU) bool { return g.ForMIG() == (one.MIG != nil) }
}

// spoken are the GPUs of the sides that the groups are for.
func (r *resolver) coveredBy(groups []Group) gpuFilter {
	return func(one GPU) bool {
		return slices.ContainsFunc(groups, func(g Group) bool { return g.sameKind()(one) })
	}
}

func (r *resolver) matching(in gpuFilter) []GPU {
	return slices.DeleteFunc(slices.Clone(r.gpus), func(g GPU) bool { return !in(g) })
}

// take takes the GPU that s names, an index counting among those of one side, if the filter
// passes it. Others can take one that does not pass: one index may stand for different
// boards.
func (r *resolver) takeSelected(s Selector, by string, in gpuFilter, passes func(GPU) bool) (GPU, bool) {
	gpus := r.matching(in)
	if s.Address != "" {
		gpus = r.gpus
	} else if mixed(gpus) {
		r.fail("%s: GPU %s may be one of two, since each vendor's are counted by themselves: give its address", by, s)
		return GPU{}, false
	}
	i, err := s.find(gpus)
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

// next takes the GPUs of the i-th group.
func (r *resolver) takeNext(groups []Group, i int) []GPU {
	group := groups[i]
	free := slices.DeleteFunc(r.untaken(), func(g GPU) bool { return !group.accepts(g) })
	switch {
	case group.Rest:
		kept := r.keptForLater(groups[i+1:])
		free = slices.DeleteFunc(free, func(g GPU) bool { return kept[g.Address] })
	case group.Count > len(free):
		all := r.matching(func(g GPU) bool { return group.accepts(g) })
		r.fail("group %d: asks for %d GPUs, %d are left of %d", i+1, group.Count, len(free), len(all))
		return nil
	default:
		free = free[:group.Count]
	}
	for _, g := range free {
		r.taken[g.Address] = fmt.Sprintf("group %d", i+1)
	}
	return free
}

// later are the GPUs that the groups need that come after one that takes the rest:
// the last ones, as many as they count, and all that another one takes the rest of by a
// filter.
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

// judge complains of GPUs with modes that no group covers although the profile is for
// them, and of a profile that is for none of the GPUs: nothing done is no success.
func (r *resolver) checkCoverage(groups []Group) {
	if len(r.errs) > 0 {
		return
	}
	left := slices.DeleteFunc(r.untaken(), func(g GPU) bool { return g.MIG != nil || !r.coveredBy(groups)(g) })
	if len(left) > 0 {
		r.fail("%d GPUs are in no group (%s): add a group with count = \"rest\", or skip them", len(left), listFew(addresses(left)))
	}
	if len(r.gpus) > 0 && len(r.taken) == 0 && len(groups) > 0 {
		r.fail("its groups match no GPU of this node (found %s, want %s)", boardNames(r.gpus), groupTargets(groups))
	}
}

// boardNames names the boards of GPUs, each once: "MI300X, H100-80GB".
func boardNames(gpus []GPU) string {
	var list []string
	for _, g := range gpus {
		name := fmt.Sprintf("0x%04x", g.Device)
		if m, ok := LookupModel(g.Vendor, g.Device); ok {
			name = m.Name
		} else if b, ok := boardOf(g); ok {
			name = b.Name
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return List(list)
}

// meantFor says what GPUs the groups are for.
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

// shape is what the profile wants of g as a member of group.
func (r *resolver) shape(p Profile, group Group, g GPU) Shape {
	if !group.ForMIG() {
		return Shape{Mode: p.targetMode(group, g)}
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
