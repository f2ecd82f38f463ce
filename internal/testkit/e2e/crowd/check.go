package crowd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/lease"
)

// Problems is what is wrong with what was seen, if it stays so: that somebody has ended
// is heard of a moment later.
func (l Look) Problems(b Batch) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(l.Parts.Parts) != b.Parts {
		add("there are %d partitions, want %d", len(l.Parts.Parts), b.Parts)
	}
	kept, free := l.kept(add), 0
	for _, part := range l.Parts.Parts {
		have := l.have(part.Render)
		if !together(have) {
			add("%s has %s", part.Name, have)
		}
		if who := kept[part.Name]; who != "" && slices.ContainsFunc(have, isLease) {
			add("%s is reserved for %s, and has %s", part.Name, who, have)
		}
		if kept[part.Name] == "" && len(have) == 0 {
			free++
		}
		if l.Listed != nil && !slices.Equal(l.Listed[part.Name], have) {
			add("%s is %s's, and dcm says %s", part.Name, have, l.Listed[part.Name])
		}
	}
	if l.Free != free {
		add("%d are free, and dcm says: %s", free, l.Said)
	}
	if l.Dry != "" {
		add("%s", l.Dry)
	}
	if l.Waiting > 0 && free >= b.Most {
		add("%d are free, and %d processes wait", free, l.Waiting)
	}
	l.scopes(add)
	l.closed(add)
	return out
}

func isLease(unit string) bool {
	_, ok := lease.ParseName(unit)
	return ok
}

// have are the units that may open a node, in order.
func (l Look) have(node string) []string {
	var out []string
	for unit, nodes := range l.Units {
		if slices.Contains(nodes, node) {
			out = append(out, unit)
		}
	}
	slices.Sort(out)
	return out
}

// kept says for whom partitions are reserved. Each reservation has as many as it wants,
// its links lead there, and so does what its unit may open.
func (l Look) kept(add func(string, ...any)) map[string]string {
	out := make(map[string]string)
	for _, r := range l.Parts.Reservations {
		if len(r.Partitions) != r.Wants {
			add("reservation %s has %s of %d: %s", r.Name, r.Partitions, r.Wants, r.Reason)
		}
		var nodes []string
		for _, name := range r.Partitions {
			if out[name] != "" {
				add("%s is reserved for %s and %s", name, out[name], r.Name)
			}
			out[name] = r.Name
			nodes = append(nodes, l.part(name).Render)
		}
		if !equal(nodes, l.Links[r.Name]) {
			add("reservation %s has %s, and its links lead to %s", r.Name, nodes, l.Links[r.Name])
		}
		if have, up := l.Units[r.Unit]; !up || !equal(have, append(nodes, common)) {
			add("reservation %s has %s, and %s is up %t and may open %s", r.Name, nodes, r.Unit, up, have)
		}
	}
	return out
}

func (l Look) part(name string) runstate.Part {
	i := slices.IndexFunc(l.Parts.Parts, func(p runstate.Part) bool { return p.Name == name })
	if i < 0 {
		return runstate.Part{}
	}
	return l.Parts.Parts[i]
}

func equal(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// scopes holds the kernel's word against PID 1's: in each scope is the process that it
// was made for, and no other; and that one opens what the scope lists, and nothing else.
func (l Look) scopes(add func(string, ...any)) {
	of := make(map[string]Holder)
	for _, h := range l.Holders {
		of[h.Unit()] = h
		if _, ok := l.Units[h.Unit()]; !ok || !isLease(h.Unit()) {
			add("process %d is in %s, which is no unit of PID 1's", h.PID, h.Cgroup)
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(l.Units)) {
		if !isLease(unit) {
			continue
		}
		h, ok := of[unit]
		if !ok {
			add("%s has the processes %v, none of which is known, and keeps %s", unit, l.Procs[unit], l.Units[unit])
			continue
		}
		if !slices.Equal(l.Procs[unit], []int{h.PID}) {
			add("%s was made for process %d and has %v", unit, h.PID, l.Procs[unit])
		}
		if !equal(h.Opens, l.Units[unit]) {
			add("%s lists %s, and its process opens %s", unit, l.Units[unit], h.Opens)
		}
	}
	for unit := range l.Procs {
		if _, ok := l.Units[unit]; !ok && len(l.Procs[unit]) > 0 {
			add("%s has the processes %v, and PID 1 does not know it", unit, l.Procs[unit])
		}
	}
}

// closed is about what is exclusive: nobody else's process opens it, root's neither, and
// what is not exclusive opens.
func (l Look) closed(add func(string, ...any)) {
	shut := make(map[string]bool)
	for _, r := range l.Parts.Reservations {
		for _, name := range r.Partitions {
			shut[name] = shut[name] || r.Exclusive
		}
	}
	for unit, nodes := range l.Units {
		if n, ok := lease.ParseName(unit); ok && n.Kind == lease.Exclusive {
			for _, p := range l.Parts.Parts {
				shut[p.Name] = shut[p.Name] || slices.Contains(nodes, p.Render)
			}
		}
	}
	var wrong []string
	for _, p := range l.Parts.Parts {
		for _, node := range []string{p.Render, p.Card} {
			if node != "" && slices.Contains(l.Opens, node) == shut[p.Name] {
				wrong = append(wrong, fmt.Sprintf("%s: exclusive %t", node, shut[p.Name]))
			}
		}
	}
	if len(wrong) > 0 {
		add("for a process of root's that is in no lease these are not as they should: %s", strings.Join(wrong, ", "))
	}
}
