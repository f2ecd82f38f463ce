package partition

import (
	"errors"
	"fmt"
)

// Profile is what an administrator selects: the modes a node's GPUs shall have,
// told without knowing which GPUs the node has.
type Profile struct {
	Name    string
	Memory  Memory     // of the whole node; "" leaves it
	Compute Compute    // of the whole node; "" if Groups says it
	Skip    []Selector // GPUs to leave as they are
	Groups  []Group    // taken in order; empty if Compute says it all
}

// Group gives one compute mode to some of a node's GPUs: the ones it names, or
// the next Count in PCI order, or all that are left but for those that groups after
// it count.
type Group struct {
	Compute Compute
	GPUs    []Selector
	Count   int
	Rest    bool
}

// Layout is a profile resolved against the GPUs of a node: the shape wanted
// of each of them.
type Layout struct {
	Shapes  map[Address]Shape // for every GPU; skipped ones with the shape they had
	Skipped map[Address]bool
}

// Layout resolves the profile against the GPUs seen. It returns every
// contradiction at once: a selector that names no GPU, a GPU named twice, more
// GPUs asked for than there are, a GPU that no group covers.
//
// A skipped GPU is pinned to the mode it has, because a driver reload on behalf
// of the others resets it too.
func (p Profile) Layout(gpus []GPU) (Layout, error) {
	r := resolver{gpus: inOrder(gpus), taken: make(map[Address]string)}
	l := Layout{Shapes: make(map[Address]Shape), Skipped: make(map[Address]bool)}
	for _, s := range p.Skip {
		if g, ok := r.take(s, "skip"); ok {
			l.Skipped[g.Address] = true
			l.Shapes[g.Address] = g.Shape()
		}
	}
	groups := p.Groups
	if len(groups) == 0 {
		groups = []Group{{Compute: p.Compute, Rest: true}}
	}
	// Named GPUs first, so that "the next two" never takes one named later.
	for i, group := range groups {
		for _, s := range group.GPUs {
			if g, ok := r.take(s, fmt.Sprintf("group %d", i+1)); ok {
				l.Shapes[g.Address] = Shape{Mode: p.mode(group, g)}
			}
		}
	}
	for i, group := range groups {
		later := 0
		for _, g := range groups[i+1:] {
			later += g.Count
		}
		for _, g := range r.next(group, i+1, later) {
			l.Shapes[g.Address] = Shape{Mode: p.mode(group, g)}
		}
	}
	if left := r.free(); len(left) > 0 && len(r.errs) == 0 {
		r.fail("%d GPUs are in no group (%s): add a group with count = \"rest\", or skip them", len(left), List(addresses(left)))
	}
	if err := errors.Join(r.errs...); err != nil {
		return Layout{}, fmt.Errorf("profile %q does not fit this node: %w", p.Name, err)
	}
	return l, nil
}

// mode is what the profile wants of g as a member of group; what the profile
// does not name stays as it is.
func (p Profile) mode(group Group, g GPU) Mode {
	m := g.Mode()
	if group.Compute != "" {
		m.Compute = group.Compute
	}
	if p.Memory != "" {
		m.Memory = p.Memory
	}
	return m
}

type resolver struct {
	gpus  []GPU
	taken map[Address]string // what named the GPU
	errs  []error
}

func (r *resolver) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

func (r *resolver) take(s Selector, by string) (GPU, bool) {
	i, err := s.find(r.gpus)
	if err != nil {
		r.fail("%s: %w", by, err)
		return GPU{}, false
	}
	g := r.gpus[i]
	if other := r.taken[g.Address]; other != "" {
		r.fail("%s: GPU %s is already named by %s", by, s, other)
		return GPU{}, false
	}
	r.taken[g.Address] = by
	return g, true
}

func (r *resolver) free() []GPU {
	var out []GPU
	for _, g := range r.gpus {
		if r.taken[g.Address] == "" {
			out = append(out, g)
		}
	}
	return out
}

// next takes the GPUs of the group with the number n; later are those that groups
// after it count.
func (r *resolver) next(group Group, n, later int) []GPU {
	free := r.free()
	if group.Rest {
		free = free[:max(0, len(free)-later)]
	} else {
		if group.Count > len(free) {
			r.fail("group %d: asks for %d GPUs, %d are left of %d", n, group.Count, len(free), len(r.gpus))
			return nil
		}
		free = free[:group.Count]
	}
	for _, g := range free {
		r.taken[g.Address] = fmt.Sprintf("group %d", n)
	}
	return free
}

// Now returns the layout that gpus have: what a rollback goes back to.
func Now(gpus []GPU) Layout {
	l := Layout{Shapes: make(map[Address]Shape, len(gpus))}
	for _, g := range gpus {
		l.Shapes[g.Address] = g.Shape()
	}
	return l
}
