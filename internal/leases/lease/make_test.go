package lease

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// dynamicGPU has an instance of the profile in slots 0 and 1.
func dynamicGPU(address partition.Address, leases ...made.Name) DynamicGPU {
	return DynamicGPU{
		GPU: address,
		Offered: []partition.InstanceProfile{
			{Name: "1g.10gb", InstanceCount: 7, Size: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}},
			{Name: "2g.20gb", InstanceCount: 3, Size: 2, Starts: []int{0, 2, 4}},
			{Name: "3g.40gb", InstanceCount: 2, Size: 4, Starts: []int{0, 4}},
			{Name: "7g.80gb", InstanceCount: 1, Size: 8, Starts: []int{0}},
		},
		Fixed: []partition.Instance{{Profile: "2g.20gb"}},
		Made:  leases,
	}
}

func TestAcquire_MakesInstance(t *testing.T) {
	h := newHost()
	h.dynamic = []DynamicGPU{dynamicGPU("0000:05:00.0")}
	var started Scope
	h.onStart = func(s Scope) error { started = s; return nil }
	l, err := New(Config{Host: Host{h, h, h, h}}).Acquire(t.Context(), alice, Request{Make: "3g.40gb", Kind: unitname.ConfinedLease})
	if err != nil {
		t.Fatal(err)
	}
	name, err := made.Parse(strings.TrimSuffix(strings.TrimPrefix(started.Requires, "dcm-make@"), ".service"))
	if want := (made.Name{Lease: l.Unit, GPU: "0000:05:00.0", Profile: "3g.40gb", Start: 4}); name != want || err != nil {
		t.Errorf("the scope requires %q, want %+v", started.Requires, want)
	}
	if p := l.Choice.Partitions; len(p) != 1 || p[0].Name != "0000:05:00.0-4" || !slices.Equal(started.Allow, name.Nodes()) {
		t.Errorf("lease: got %+v with %q", l, started.Allow)
	}
}

func TestAcquire_NoSlot(t *testing.T) {
	lease := made.Name{Lease: "dcm-lease-1000-4f1c09aa.scope", GPU: "0000:05:00.0", Profile: "3g.40gb", Start: 4}
	gap := made.Name{Lease: "dcm-lease-1000-4f1c09ab.scope", GPU: "0000:05:00.0", Profile: "1g.10gb", Start: 5}
	for _, tt := range []struct {
		name, profile string
		gpus          []DynamicGPU
		passes        bool
		texts         []string
	}{
		{"no dynamic GPU", "1g.10gb", nil, false, []string{"dynamic = true"}},
		{"held by a lease", "3g.40gb", []DynamicGPU{dynamicGPU("0000:05:00.0", lease)}, true, []string{"0000:05:00.0", "free slots 2–3", lease.Lease}},
		{"fragmented", "3g.40gb", []DynamicGPU{dynamicGPU("0000:05:00.0", gap)}, true, []string{"with other placements"}},
		{"held by the profile", "7g.80gb", []DynamicGPU{dynamicGPU("0000:05:00.0", lease)}, false, []string{"instances of the profile"}},
		{"unknown profile", "5g.50gb", []DynamicGPU{dynamicGPU("0000:05:00.0")}, false, []string{"5g.50gb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost()
			h.dynamic = tt.gpus
			h.tenants = []UnitDevices{{lease.Lease, true, []string{"/dev/dri/renderD128"}}}
			_, err := New(Config{Host: Host{h, h, h, h}}).Acquire(t.Context(), alice, Request{Make: tt.profile, Kind: unitname.ConfinedLease})
			if err == nil || Passes(err) != tt.passes {
				t.Fatalf("error: got %v, want one that passes: %t", err, tt.passes)
			}
			for _, text := range tt.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error: want %q in %v", text, err)
				}
			}
		})
	}
}

// The instance of a lease that has ended is not given to another lease.
func TestAcquire_MadePartitionNotFree(t *testing.T) {
	h := newHost()
	h.made = map[string]string{"0000:05:00.0-1": "dcm-lease-1000-4f1c09aa.scope"}
	a := New(Config{Host: Host{h, h, h, h}})
	r := Request{Kind: unitname.ConfinedLease}
	r.Partitions = 8
	_, err := a.Acquire(t.Context(), alice, r)
	if err == nil || !strings.Contains(err.Error(), "7 of 8") {
		t.Errorf("all partitions: got %v, want 7 of 8", err)
	}
	r.Partitions = 7
	if l, err := a.Acquire(t.Context(), alice, r); err != nil || slices.Contains(l.Nodes, "/dev/dri/renderD129") {
		t.Errorf("the others: got %v, %v", l.Nodes, err)
	}
}

// The limit counts the slots of the instances that a user has made, also while they are being destroyed.
func TestAcquire_SlotLimit(t *testing.T) {
	own := made.Name{Lease: "dcm-lease-1000-4f1c09aa.scope", GPU: "0000:05:00.0", Profile: "1g.10gb", Start: 2}
	other := made.Name{Lease: "dcm-lease-1001-4f1c09ab.scope", GPU: "0000:05:00.0", Profile: "1g.10gb", Start: 3}
	h := newHost()
	h.dynamic = []DynamicGPU{dynamicGPU("0000:05:00.0", own, other)}
	a := New(Config{Host: Host{h, h, h, h}})
	a.Limit(Limits{Slots: 4})
	_, err := a.Acquire(t.Context(), alice, Request{Make: "3g.40gb", Kind: unitname.ConfinedLease})
	if want := "4 more would exceed max-slots-per-user in [leases] = 4: 1 in use"; err == nil || err.Error() != want || !Passes(err) {
		t.Errorf("over the limit: got %v, want %q", err, want)
	}
	if _, err := a.Acquire(t.Context(), alice, Request{Make: "2g.20gb", Kind: unitname.ConfinedLease}); err != nil {
		t.Errorf("within the limit: %v", err)
	}
}

// A GPU with memory that no process holds is taken last, with a note, or not at all.
func TestChoose_HeldMemory(t *testing.T) {
	offered := dynamicGPU("").Offered
	held := HeldMemory{GPUs: []runstate.MemoryHeld{{GPU: "0000:05:00.0", Bytes: 149 << 30}}}
	var parts []runstate.Part
	for _, a := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		parts = append(parts, runstate.Part{Name: runstate.PartName(a, 0), GPU: a, Kind: "amd SPX", Render: "/dev/" + string(a)})
	}
	dynamic := func() ([]DynamicGPU, error) {
		return []DynamicGPU{{GPU: "0000:05:00.0", Offered: offered}, {GPU: "0000:26:00.0", Offered: offered}}, nil
	}
	for _, r := range []Request{{Want: placement.Want{Partitions: 1}}, {Want: placement.Want{GPUs: 1}}, {Make: "1g.10gb"}} {
		p := new(policy)
		c, err := p.choose(Snapshot{Parts: parts, Dynamic: dynamic, Held: held, Late: held.Late(nil)}, Caller{}, r)
		if err != nil || c.Partitions[0].GPU != "0000:26:00.0" || len(held.notes(c.Partitions)) != 0 {
			t.Errorf("%+v: got %+v, %v", r, c, err)
		}
	}
	two := Request{Want: placement.Want{Partitions: 2}}
	c, err := new(policy).choose(Snapshot{Parts: parts, Held: held}, Caller{}, two)
	if notes := held.notes(c.Partitions); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "0000:05:00.0 has 149 GiB of memory in use that no process holds") {
		t.Errorf("both: got %+v, %q, %v", c, notes, err)
	}
	held.Refuse = true
	_, err = new(policy).choose(Snapshot{Parts: parts, Held: held}, Caller{}, two)
	if short, ok := errors.AsType[*InsufficientError](err); !ok || len(short.Holders) != 1 || !strings.Contains(short.Holders[0], "no process holds") {
		t.Errorf("refused: got %v", err)
	}
	if err := new(policy).impossible(Snapshot{Parts: parts, Held: held}, Caller{}, two, location{}); err != nil {
		t.Errorf("never: %v", err)
	}
}
