package leasesoak

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// Problems returns the problems of an observation. Some problems disappear when the end of a process is
// noticed.
func (l Observation) Problems(b Batch) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(l.Parts.Parts) != b.Parts {
		add("partitions: want %d, got %d", b.Parts, len(l.Parts.Parts))
	}
	kept, free := l.reserved(add), 0
	for _, part := range l.Parts.Parts {
		have := l.holdersOf(part.Render)
		if !mayShare(have) {
			add("%s is held by %s", part.Name, have)
		}
		if who := kept[part.Name]; who != "" && slices.ContainsFunc(have, isLease) {
			add("%s is reserved for %s, but held by %s", part.Name, who, have)
		}
		if kept[part.Name] == "" && len(have) == 0 {
			free++
		}
		if l.Listed != nil && !slices.Equal(l.Listed[part.Name], have) {
			add("%s: want the holders %s, dcm prints %s", part.Name, have, l.Listed[part.Name])
		}
	}
	if l.Free != free {
		add("free partitions: want %d, dcm prints: %s", free, l.Message)
	}
	if l.Dry != "" {
		add("%s", l.Dry)
	}
	if l.Waiting > 0 && free >= b.Largest {
		add("%d partitions are free, but %d processes wait", free, l.Waiting)
	}
	l.scopes(add)
	l.closed(add)
	return out
}

func isLease(unit string) bool {
	_, ok := unitname.ParseLease(unit)
	return ok
}

// holdersOf returns the units that may open a node, sorted.
func (l Observation) holdersOf(node string) []string {
	var out []string
	for unit, nodes := range l.Units {
		if slices.Contains(nodes, node) {
			out = append(out, unit)
		}
	}
	slices.Sort(out)
	return out
}

// reserved returns the reservation of each partition. It checks the number of partitions, the
// links and the device list of each reservation.
func (l Observation) reserved(add func(string, ...any)) map[string]string {
	out := make(map[string]string)
	for _, r := range l.Parts.Reservations {
		if len(r.Partitions) != r.Wants {
			add("reservation %s: want %d partitions, got %s: %s", r.Name, r.Wants, r.Partitions, r.Reason)
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
			add("links of reservation %s: want %s, got %s", r.Name, nodes, l.Links[r.Name])
		}
		if have, up := l.Units[r.Unit]; !up || !equal(have, append(nodes, common)) {
			add("devices of reservation %s: want %s, got unit %s active %t with %s", r.Name, nodes, r.Unit, up, have)
		}
	}
	return out
}

func (l Observation) part(name string) runstate.Part {
	i := slices.IndexFunc(l.Parts.Parts, func(p runstate.Part) bool { return p.Name == name })
	if i < 0 {
		return runstate.Part{}
	}
	return l.Parts.Parts[i]
}

func equal(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// scopes checks that each scope has the one process that it was made for, and that this
// process can open exactly the nodes that the scope lists.
func (l Observation) scopes(add func(string, ...any)) {
	of := make(map[string]Holder)
	for _, h := range l.Holders {
		of[h.Unit()] = h
		if _, ok := l.Units[h.Unit()]; !ok || !isLease(h.Unit()) {
			add("process %d is in %s, which PID 1 does not list", h.PID, h.Cgroup)
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(l.Units)) {
		if !isLease(unit) {
			continue
		}
		h, ok := of[unit]
		if !ok {
			add("%s has no known process (found %v), but holds %s", unit, l.Procs[unit], l.Units[unit])
			continue
		}
		if !slices.Equal(l.Procs[unit], []int{h.PID}) {
			add("processes of %s: want %d, got %v", unit, h.PID, l.Procs[unit])
		}
		if !equal(h.Opens, l.Units[unit]) {
			add("nodes of %s: want %s, its process opens %s", unit, l.Units[unit], h.Opens)
		}
	}
	for unit := range l.Procs {
		if _, ok := l.Units[unit]; !ok && len(l.Procs[unit]) > 0 {
			add("%s has the processes %v, but PID 1 does not list it", unit, l.Procs[unit])
		}
	}
}

// closed checks that a process of root outside of a lease can open the shared partitions and
// no exclusive one.
func (l Observation) closed(add func(string, ...any)) {
	shut := make(map[string]bool)
	for _, r := range l.Parts.Reservations {
		for _, name := range r.Partitions {
			shut[name] = shut[name] || r.Exclusive
		}
	}
	for unit, nodes := range l.Units {
		if n, ok := unitname.ParseLease(unit); ok && n.Kind == unitname.ExclusiveLease {
			for _, p := range l.Parts.Parts {
				shut[p.Name] = shut[p.Name] || slices.Contains(nodes, p.Render)
			}
		}
	}
	var wrong []string
	for _, p := range l.Parts.Parts {
		for _, node := range []string{p.Render, p.Card} {
			if node != "" && slices.Contains(l.Opens, node) == shut[p.Name] {
				wrong = append(wrong, fmt.Sprintf("%s: a process outside of leases can open it: %t, exclusive: %[2]t", node, shut[p.Name]))
			}
		}
	}
	if len(wrong) > 0 {
		add("a process of root without a lease can open the wrong nodes: %s", strings.Join(wrong, ", "))
	}
}
