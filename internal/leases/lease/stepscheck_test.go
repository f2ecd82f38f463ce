package lease

import (
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// check compares the allocations with the recorded partitions.
func (w *world) check(step int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	snapshot := Snapshot{Parts: w.parts, Units: w.tenants, Reserved: w.kept(), Open: w.open}
	free := 0
	for _, h := range Allocations(snapshot) {
		var units []string
		for unit, nodes := range w.given {
			if nodes[h.Render] {
				units = append(units, unit)
			}
		}
		if slices.Sort(units); !slices.Equal(units, slices.Sorted(slices.Values(h.Units))) {
			w.t.Errorf("step %d: holders of %s: got %s, want %s", step, h.Name, h.Units, units)
		}
		if len(units) > 1 {
			w.together(step, h)
		}
		if len(units) == 0 && snapshot.Reserved[h.Name] == "" && len(w.open[h.Name]) == 0 {
			free++
		}
	}
	w.obtainable(step, snapshot, free)
	w.guarded(step)
}

// together checks that only shared leases have a partition in common.
func (w *world) together(step int, h Allocation) {
	for _, unit := range h.Units {
		first, _ := unitname.ParseLease(h.Units[0])
		if n, _ := unitname.ParseLease(unit); n.Kind != unitname.SharedLease || n.Of != first.Of || len(h.Units) > n.Of {
			w.t.Errorf("step %d: units of %s: %s", step, h.Name, h.Units)
		}
	}
}

// obtainable checks that a lease can get all free partitions, and no more.
func (w *world) obtainable(step int, snapshot Snapshot, free int) {
	for n, want := range map[int]bool{free: free > 0, free + 1: false} {
		_, err := w.keeper.policy.choose(snapshot, Caller{}, ask(n))
		if n > 0 && (err == nil) != want {
			w.t.Errorf("step %d: %d free, %d requested: %v", step, free, n, err)
		}
	}
}

// guarded checks that the guard's table has exactly the exclusive partitions.
func (w *world) guarded(step int) {
	p := runstate.Partitions{}
	want := make(map[string]bool)
	for _, part := range w.parts {
		p.Parts = append(p.Parts, runstate.Part{Name: part.Name, Render: part.Render})
	}
	for _, r := range w.list {
		g := w.grants[r.Name]
		r.Partitions = g.Partitions
		p.Reservations = append(p.Reservations, r)
		for _, node := range g.Nodes {
			want[node] = want[node] || r.Exclusive
		}
	}
	units := make(map[string][]string)
	for _, t := range w.tenants {
		units[t.Unit] = t.Allowed
		n, _ := unitname.ParseLease(t.Unit)
		for node := range w.given[t.Unit] {
			want[node] = want[node] || n.Kind == unitname.ExclusiveLease
		}
	}
	maps.DeleteFunc(want, func(_ string, yes bool) bool { return !yes })
	got := make(map[string]bool)
	for _, e := range ExclusiveParts(p, units) {
		node := e.Nodes()[0]
		if own := w.given[e.Holder][node] || slices.Contains(w.grants[e.Holder].Nodes, node); !own || got[node] {
			w.t.Errorf("step %d: %s is in the guard's table for %s", step, node, e.Holder)
		}
		got[node] = true
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("step %d: guard's table: got %s, want %s", step, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// leave ends all requests and units. All partitions must be free then.
func (w *world) leave() {
	w.restart()
	w.done()
	for unit := w.anyLease(); unit != ""; unit = w.anyLease() {
		w.Stop(w.t.Context(), unit)
	}
	w.open, w.list = nil, nil
	w.choose()
	snapshot, _ := w.Snapshot(w.t.Context())
	for _, h := range Allocations(snapshot) {
		if !h.Free() {
			w.t.Errorf("%s still has the holders %s", h.Name, h.Whose())
		}
	}
}
