package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func h100() []InstanceProfile {
	return []InstanceProfile{
		{Name: "1g.10gb", ID: 19, InstanceCount: 7, Size: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}},
		{Name: "1g.10gb+me", ID: 20, InstanceCount: 1, Size: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}},
		{Name: "2g.20gb", ID: 14, InstanceCount: 3, Size: 2, Starts: []int{0, 2, 4}},
		{Name: "3g.40gb", ID: 9, InstanceCount: 2, Size: 4, Starts: []int{0, 4}},
		{Name: "7g.80gb", ID: 0, InstanceCount: 1, Size: 8, Starts: []int{0}},
	}
}

func TestNextSlot(t *testing.T) {
	at := func(profile string, start int) Instance { return Instance{Profile: profile, Start: start} }
	for _, tt := range []struct {
		name    string
		now     []Instance
		profile string
		start   int  // -1: there is none now
		movable bool // only if start is -1
	}{
		{"away from the only place of 4g.40gb", nil, "1g.10gb", 6, false},
		{"the same with four slots", nil, "3g.40gb", 4, false},
		{"next to another", []Instance{at("1g.10gb", 2)}, "1g.10gb", 3, false},
		{"next to others", []Instance{at("3g.40gb", 0)}, "3g.40gb", 4, false},
		{"small one in the gap", []Instance{at("1g.10gb", 0), at("2g.20gb", 2)}, "1g.10gb", 1, false},
		{"full", []Instance{at("7g.80gb", 0)}, "1g.10gb", -1, false},
		{"fragmented", []Instance{at("1g.10gb", 2), at("1g.10gb", 4)}, "3g.40gb", -1, true},
		{"too often", []Instance{at("1g.10gb+me", 0)}, "1g.10gb+me", -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			slot, err := NextSlot(h100(), tt.now, tt.profile)
			full, none := errors.AsType[*NoSlotError](err)
			switch {
			case tt.start >= 0 && (err != nil || slot.Start != tt.start):
				t.Errorf("got slot %d, %v, want %d", slot.Start, err, tt.start)
			case tt.start < 0 && (!none || full.Movable != tt.movable):
				t.Errorf("got %v, want no slot, movable %t", err, tt.movable)
			}
		})
	}
	board, _ := LookupBoard("H100-80GB")
	for profile, start := range map[string]int{"1g.10gb": 6, "1g.20gb": 6, "2g.20gb": 4, "3g.40gb": 4, "4g.40gb": 0} {
		if slot, err := NextSlot(board.Profiles, nil, profile); err != nil || slot.Start != start {
			t.Errorf("%s on an empty H100: got slot %d, %v, want %d", profile, slot.Start, err, start)
		}
	}
	if _, err := NextSlot(h100(), nil, "5g.50gb"); err == nil {
		t.Error("a profile that the GPU does not have fits")
	} else if _, none := errors.AsType[*NoSlotError](err); none {
		t.Errorf("%v is not permanent", err)
	}
}

func packerOf(offered []InstanceProfile) packer {
	p := packer{offered: make(map[string]InstanceProfile)}
	for _, s := range offered {
		p.offered[s.Name] = s
	}
	return p
}

// everyState calls f with each set of placed instances that a board can have.
func everyState(offered []InstanceProfile, f func(now []Instance)) {
	p := packerOf(offered)
	var add func(now []Instance, taken uint, from int)
	add = func(now []Instance, taken uint, from int) {
		f(now)
		for i := from; i < len(offered); i++ {
			for _, start := range offered[i].Starts {
				run := offered[i].slotMask(start)
				next := append(slices.Clone(now), Instance{Profile: offered[i].Name, Start: start})
				last := len(now) > 0 && now[len(now)-1].Profile == offered[i].Name && now[len(now)-1].Start > start // another order of the same set
				if taken&run == 0 && !last && p.validate(offered, MIG{Instances: next}) == nil {
					add(next, taken|run, i)
				}
			}
		}
	}
	add(nil, 0, 0)
}

// An instance of a lease that is not destroyed has its slots, even without a compute instance.
func TestFreeRuns_CountMadeInstances(t *testing.T) {
	board, _ := LookupBoard("H100-80GB")
	left := Instance{Profile: "3g.40gb", Start: 0}
	for _, now := range [][]Instance{nil, {left}} {
		g := GPU{MIG: &MIG{Instances: now}, Profiles: board.Profiles, Made: []Instance{left, left}}
		if free, longest := g.FreeRuns(); free != 4 || longest != 4 {
			t.Errorf("instances %v: %d free slots, longest run %d, want 4 and 4", now, free, longest)
		}
	}
}

// Slot 7 of an H100 belongs to no placement of the smallest instance, only to larger ones that start before it.
func TestFreeRuns_UsableSlotsOnly(t *testing.T) {
	board, _ := LookupBoard("H100-80GB")
	one := func(starts ...int) (all []Instance) {
		for _, start := range starts {
			all = append(all, Instance{Profile: "1g.10gb", Start: start})
		}
		return all
	}
	for _, test := range []struct {
		name          string
		now           []Instance
		free, longest int
	}{
		{"empty", nil, 8, 8},
		{"slot 6 is taken", one(6), 6, 6},
		{"all instances", one(0, 1, 2, 3, 4, 5, 6), 0, 0},
		{"between", one(1, 6), 5, 4},
		{"slot 7 next to a free one", one(0, 1, 2, 3, 4, 5), 2, 2},
	} {
		g := GPU{MIG: &MIG{Instances: test.now}, Profiles: board.Profiles}
		if free, longest := g.FreeRuns(); free != test.free || longest != test.longest {
			t.Errorf("%s: %d free slots, longest run %d, want %d and %d", test.name, free, longest, test.free, test.longest)
		}
	}
}

// TestNextSlot_Exhaustive: in every state of every board, the placement of every profile leaves the most room,
// and there is none only if no placement is free.
func TestNextSlot_Exhaustive(t *testing.T) {
	states, movable := 0, 0
	for _, b := range Boards() {
		p := packerOf(b.Profiles)
		everyState(b.Profiles, func(now []Instance) {
			states++
			g := GPU{MIG: &MIG{Instances: now}, Profiles: b.Profiles}
			if free, longest := g.FreeRuns(); free != len(freeOf(b.Profiles, now)) || longest != longestRun(freeOf(b.Profiles, now)) {
				t.Fatalf("%s with %s: %d free slots, longest run %d", b.Name, texts(now), free, longest)
			}
			for _, s := range b.Profiles {
				best := -1
				for _, start := range s.Starts {
					one := Instance{Profile: s.Name, Start: start}
					with := append(slices.Clone(now), one)
					overlaps := slices.ContainsFunc(now, func(i Instance) bool { return Overlap(b.Profiles, i, one) })
					if !overlaps && p.validate(b.Profiles, MIG{Instances: with}) == nil {
						best = max(best, roomBeside(b.Profiles, with))
					}
				}
				slot, err := NextSlot(b.Profiles, now, s.Name)
				full, none := errors.AsType[*NoSlotError](err)
				switch {
				case best < 0 && !none:
					t.Fatalf("%s with %s: %s at slot %d, %v, want no slot", b.Name, texts(now), s.Name, slot.Start, err)
				case best >= 0 && (err != nil || slot.After != best || slot.Before != roomBeside(b.Profiles, now)):
					t.Fatalf("%s with %s: %s at %+v, %v, want a room of %d", b.Name, texts(now), s.Name, slot, err, best)
				case none:
					_, err := Pack(b.Profiles, MIG{Instances: append(slices.Clone(now), Instance{Profile: s.Name})}.unplaced())
					if full.Movable != (err == nil) {
						t.Fatalf("%s with %s: %s movable %t, want %t", b.Name, texts(now), s.Name, full.Movable, err == nil)
					}
					if full.Movable {
						movable++
					}
				}
			}
		})
	}
	t.Logf("%d states, %d requests that would fit after defragmentation", states, movable)
	if states < 1000 || movable == 0 {
		t.Error("too few states")
	}
}

// roomBeside returns the sizes of the placements that overlap no instance. Of the profiles "1g.10gb" and
// "1g.10gb+me" one counts.
func roomBeside(offered []InstanceProfile, now []Instance) int {
	sum := 0
	var counted []string
	for _, s := range offered {
		for _, start := range s.Starts {
			one := Instance{Profile: s.Name, Start: start}
			id := fmt.Sprint(s.Name[:strings.IndexAny(s.Name+"+", "+-")], start)
			if !slices.Contains(counted, id) && !slices.ContainsFunc(now, func(i Instance) bool { return Overlap(offered, i, one) }) {
				counted, sum = append(counted, id), sum+s.Size
			}
		}
	}
	return sum
}

// TestNextSlot_AvoidableRefusals: of all sequences of four requests to an empty H100, few are refused that would fit
// with other placements of the instances before them. With the longest run of free slots as the rule they are 134 of
// 1,554.
func TestNextSlot_AvoidableRefusals(t *testing.T) {
	board, _ := LookupBoard("H100-80GB")
	offered := slices.DeleteFunc(slices.Clone(board.Profiles), func(s InstanceProfile) bool { return strings.Contains(s.Name, "+") })
	requests, avoidable := 0, 0
	var follow func(now []Instance, more int)
	follow = func(now []Instance, more int) {
		if more == 0 {
			return
		}
		for _, s := range offered {
			requests++
			slot, err := NextSlot(offered, now, s.Name)
			if err != nil {
				if full, _ := errors.AsType[*NoSlotError](err); full.Movable {
					avoidable++
				}
				follow(now, more-1)
				continue
			}
			follow(append(slices.Clone(now), Instance{Profile: s.Name, Start: slot.Start}), more-1)
		}
	}
	follow(nil, 4)
	if requests != 1554 || avoidable > 34 {
		t.Errorf("%d of %d requests are refused that would fit, want at most 34 of 1554", avoidable, requests)
	}
}

// Next to a 2g.20gb at slot 0, a 3g.40gb and two 1g.10gb fit in each order.
func TestNextSlot_AnyOrder(t *testing.T) {
	board, _ := LookupBoard("H100-80GB")
	for _, order := range [][]string{{"3g.40gb", "1g.10gb", "1g.10gb"}, {"1g.10gb", "3g.40gb", "1g.10gb"}, {"1g.10gb", "1g.10gb", "3g.40gb"}} {
		now := []Instance{{Profile: "2g.20gb", Start: 0}}
		for _, profile := range order {
			slot, err := NextSlot(board.Profiles, now, profile)
			if err != nil {
				t.Fatalf("%v: %s next to %s: %v", order, profile, texts(now), err)
			}
			now = append(now, Instance{Profile: profile, Start: slot.Start})
		}
	}
}

// freeOf returns the slots that no instance has.
func freeOf(offered []InstanceProfile, now []Instance) []int {
	var taken uint
	for _, i := range now {
		taken |= offered[slices.IndexFunc(offered, func(s InstanceProfile) bool { return s.Name == i.Profile })].slotMask(i.Start)
	}
	return freeSlots(offered, taken)
}

// The instances of leases stay on a dynamic GPU, unless they prevent its own.
func TestPlan_DynamicGPU(t *testing.T) {
	two, three, one := Instance{Profile: "2g.20gb", Start: 2}, Instance{Profile: "3g.40gb", Start: 4}, Instance{Profile: "1g.10gb", Start: 0}
	for _, tt := range []struct {
		name       string
		rest       map[string]int
		have, made []Instance
		static     bool
		want       []Instance // that remain or are created
	}{
		{name: "at rest", rest: map[string]int{"2g.20gb": 1}, have: []Instance{two}, want: []Instance{two}},
		{name: "with instances of leases", rest: map[string]int{"2g.20gb": 1}, have: []Instance{one, two, three}, made: []Instance{three, one}, want: []Instance{one, two, three}},
		{name: "equal profiles", rest: map[string]int{"3g.40gb": 1}, have: []Instance{{Profile: "3g.40gb"}, three}, made: []Instance{three}, want: []Instance{{Profile: "3g.40gb"}, three}},
		{name: "foreign instance", rest: map[string]int{"2g.20gb": 1}, have: []Instance{one, two, three}, made: []Instance{three}, want: []Instance{two, three}},
		{name: "own instance missing", rest: map[string]int{"2g.20gb": 1}, have: []Instance{three}, made: []Instance{three}, want: []Instance{{Profile: "2g.20gb"}, three}},
		{name: "claim without instance", rest: map[string]int{"2g.20gb": 1}, have: []Instance{two}, made: []Instance{three}, want: []Instance{two}},
		{name: "no room for its own", rest: map[string]int{"7g.80gb": 1}, have: []Instance{three}, made: []Instance{three}, want: []Instance{{Profile: "7g.80gb"}}},
		{name: "not dynamic", rest: map[string]int{"2g.20gb": 1}, have: []Instance{two, three}, made: []Instance{three}, static: true, want: []Instance{two}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rest, err := NewMIG(tt.rest)
			if err != nil {
				t.Fatal(err)
			}
			g := GPU{Address: "0000:41:00.0", Vendor: NVIDIA, MIG: &MIG{Instances: tt.have}, Profiles: h100(), Made: tt.made}
			layout, err := Profile{Groups: []Group{{MIG: &rest, Rest: true, Dynamic: !tt.static}}}.Layout([]GPU{g})
			if err != nil || layout.Dynamic[g.Address] == tt.static {
				t.Fatalf("%+v, %v", layout, err)
			}
			steps, err := Plan(layout, []GPU{g})
			if err != nil {
				t.Fatal(err)
			}
			after := Forecast([]GPU{g}, steps)[0].MIG
			if !after.Same(MIG{Instances: tt.want}) {
				t.Errorf("got %v by %v, want %v", after.Instances, steps, tt.want)
			}
			if same := slices.EqualFunc(tt.have, tt.want, Instance.stays); same != (len(steps) == 0) {
				t.Errorf("steps are %v", steps)
			}
		})
	}
}

// A mode that leases have set is no difference from the profile, unless the profile has changed.
func TestPlan_MadeMode(t *testing.T) {
	for _, tt := range []struct {
		name         string
		group        Compute
		memory       Memory
		now          Compute
		made         MadeMode
		static       bool
		steps        int
		switchesBack bool
	}{
		{name: "at rest", group: SPX, now: SPX},
		{name: "set by leases", group: SPX, now: CPX, made: MadeMode{CPX, SPX}},
		{name: "set by another program", group: SPX, now: CPX, steps: 1, switchesBack: true},
		{name: "other mode than the leases'", group: SPX, now: DPX, made: MadeMode{CPX, SPX}, steps: 1, switchesBack: true},
		{name: "before the switch", group: SPX, now: SPX, made: MadeMode{CPX, SPX}},
		{name: "profile changed", group: DPX, now: CPX, made: MadeMode{CPX, SPX}, steps: 1},
		{name: "not dynamic any more", group: SPX, now: CPX, made: MadeMode{CPX, SPX}, static: true, steps: 1, switchesBack: true},
		{name: "memory mode changed", group: SPX, memory: NPS4, now: QPX, made: MadeMode{QPX, SPX}, steps: -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := GPU{Address: "0000:05:00.0", Vendor: AMD, Device: 0x74a1, XCC: 8, Compute: tt.now, Memory: NPS1, AvailableCompute: []Compute{SPX, DPX, QPX, CPX}, AvailableMemory: []Memory{NPS1, NPS4}, MadeMode: tt.made}
			layout, err := Profile{Memory: tt.memory, Groups: []Group{{Compute: tt.group, Rest: true, Dynamic: !tt.static}}}.Layout([]GPU{g})
			if err != nil || layout.Dynamic[g.Address] == tt.static {
				t.Fatalf("%+v, %v", layout, err)
			}
			if tt.steps < 0 {
				if got := layout.Shapes[g.Address].Mode; got != (Mode{SPX, NPS4}) {
					t.Errorf("wanted modes: got %s, want SPX/NPS4", got)
				}
				return
			}
			steps, err := Plan(layout, []GPU{g})
			if err != nil || len(steps) != tt.steps || tt.switchesBack && steps[0].To != string(SPX) {
				t.Errorf("steps: got %v, %v, want %d", steps, err, tt.steps)
			}
		})
	}
}
