package partition

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// placements returns every way to place the wanted instances, without the planner's code.
func placements(offered []InstanceProfile, want []Instance) [][]Instance {
	if len(want) == 0 {
		return [][]Instance{nil}
	}
	var out [][]Instance
	at := slices.IndexFunc(offered, func(p InstanceProfile) bool { return p.Name == want[0].Profile })
	for _, rest := range placements(offered, want[1:]) {
		for _, start := range offered[at].Starts {
			if want[0].Start != unplaced && want[0].Start != start || slices.ContainsFunc(rest, func(o Instance) bool {
				size := offered[slices.IndexFunc(offered, func(p InstanceProfile) bool { return p.Name == o.Profile })].Size
				return start < o.Start+size && o.Start < start+offered[at].Size
			}) {
				continue
			}
			one := want[0]
			one.Start = start
			out = append(out, append([]Instance{one}, rest...))
		}
	}
	return out
}

// score returns the cost of a placement as the specification has it, most important first: users that
// block it, other interrupted users, destroyed instances, then the placements from the largest instance on.
func score(offered []InstanceProfile, now, placed []Instance, users map[int][]InstanceUser) []int {
	interrupted, blocking, destroyed := make(map[string]bool), make(map[string]bool), 0
	for _, i := range now {
		if slices.ContainsFunc(placed, func(o Instance) bool { return i.String() == o.String() }) {
			continue
		}
		destroyed++
		for _, u := range users[i.Start] {
			if u.Blocks {
				blocking[u.Name] = true
			} else {
				interrupted[u.Name] = true
			}
		}
	}
	size := func(i Instance) int {
		return offered[slices.IndexFunc(offered, func(p InstanceProfile) bool { return p.Name == i.Profile })].Size
	}
	order := slices.Clone(placed)
	slices.SortFunc(order, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	order = MIG{Instances: order}.sorted()
	slices.SortStableFunc(order, func(a, b Instance) int { return cmp.Compare(size(b), size(a)) })
	out := []int{len(blocking), len(interrupted), destroyed}
	for _, i := range order {
		out = append(out, i.Start)
	}
	return out
}

// TestPackKeeping_Optimal compares the planner with an exhaustive search on all boards.
func TestPackKeeping_Optimal(t *testing.T) {
	type geometries struct{ want, have []MIG }
	known := make(map[string]geometries)
	for _, b := range Boards() {
		want, have := divisions(t, b.Profiles)
		known[b.Name] = geometries{want, have}
	}
	rapid.Check(t, func(t *rapid.T) {
		board := rapid.SampledFrom(Boards()).Draw(t, "board")
		all := known[board.Name]
		now := rapid.SampledFrom(all.have).Draw(t, "now")
		ways := placements(board.Profiles, now.Instances)
		if !now.Off && rapid.Bool().Draw(t, "elsewhere") {
			ways = placements(board.Profiles, now.unplaced().Instances)
		}
		existing := slices.Clone(rapid.SampledFrom(ways).Draw(t, "placed"))
		for i := range existing {
			existing[i].Compute = drawCompute(t, existing[i].Profile)
		}
		want := MIG{Instances: slices.Clone(rapid.SampledFrom(all.want).Draw(t, "want").Instances)}
		for i := range want.Instances {
			want.Instances[i].Compute = drawCompute(t, want.Instances[i].Profile)
		}
		users := make(map[int][]InstanceUser)
		for _, i := range existing {
			users[i.Start] = rapid.SliceOfNDistinct(rapid.SampledFrom([]InstanceUser{{Name: "a.service"}, {Name: "b.service"}, {"lease.scope", true}}), 0, 2, rapid.ID[InstanceUser]).Draw(t, "users")
		}
		var best []int
		for _, way := range placements(board.Profiles, want.sorted()) {
			if s := score(board.Profiles, existing, way, users); best == nil || slices.Compare(s, best) < 0 {
				best = s
			}
		}
		got, err := PackKeeping(board.Profiles, want, Existing{existing, users})
		if err != nil {
			t.Fatal(err)
		}
		if s := score(board.Profiles, existing, got.sorted(), users); slices.Compare(s, best) != 0 || !got.Same(want) {
			t.Fatalf("from %s to %s: %s has the score %v, want %v", texts(existing), want, texts(got.Instances), s, best)
		}
		checkPlan(t, board, existing, want)
	})
}

// drawCompute draws the compute instances of a GPU instance, in the form of [MIG.sorted].
func drawCompute(t *rapid.T, profile string) []string {
	p, err := ParseMIGProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	if p.Slices < 2 || !rapid.Bool().Draw(t, "divided") {
		return nil
	}
	one := fmt.Sprintf("1c.%s", profile)
	return slices.Repeat([]string{one}, rapid.IntRange(1, p.Slices).Draw(t, "compute"))
}

// checkPlan compares the steps of a plan with the geometries: each step leads to the next
// state, the whole plan leads to the wanted geometry, and nothing is left to do after any
// number of steps except the rest.
func checkPlan(t *rapid.T, board Board, existing []Instance, want MIG) {
	have := TypicalMIG(board, 1)
	have[0].MIG, have[0].Profiles = &MIG{Instances: existing}, board.Profiles
	layout := Layout{Shapes: map[Address]Shape{have[0].Address: {MIG: &want}}}
	steps, err := Plan(layout, have)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 != have[0].MIG.Same(want) {
		t.Fatalf("from %s to %s: steps %v", texts(existing), want, lines(steps))
	}
	kept := steps.Changes(have)
	for len(steps) > 0 {
		now, then := steps.NextBatch()
		have = Forecast(have, now)
		again, err := Plan(layout, have)
		if err != nil || fmt.Sprint(lines(again)) != fmt.Sprint(lines(then)) {
			t.Fatalf("from %s to %s: after %v the plan is %v, want %v (%v)", texts(existing), want, lines(now), lines(again), lines(then), err)
		}
		steps = then
	}
	if !have[0].MIG.Same(want) {
		t.Fatalf("from %s to %s: ended at %s", texts(existing), want, have[0].MIG)
	}
	for _, c := range kept {
		for _, i := range c.Kept {
			if !slices.ContainsFunc(have[0].MIG.Instances, i.stays) {
				t.Fatalf("from %s to %s: %s is gone", texts(existing), want, i)
			}
		}
	}
}

// An instance in use stays, although another choice would destroy fewer instances.
func TestPackKeeping_UsersFirst(t *testing.T) {
	board, _ := LookupBoard("H100-80GB")
	now := []Instance{{Profile: "1g.10gb", Start: 0}, {Profile: "1g.10gb", Start: 1}, {Profile: "1g.10gb", Start: 4}}
	want := MIG{Instances: []Instance{{Profile: "3g.40gb", Start: unplaced}, {Profile: "1g.10gb", Start: unplaced}, {Profile: "1g.10gb", Start: unplaced}}}
	vllm := InstanceUser{Name: "vllm.service"}
	for _, tt := range []struct {
		name  string
		users map[int][]InstanceUser
		want  string
	}{
		{"all equal", nil, "1g.10gb@0 1g.10gb@1 3g.40gb@4"},
		{"one in use", map[int][]InstanceUser{4: {vllm}}, "3g.40gb@0 1g.10gb@4 1g.10gb@5"},
		{"one user of two", map[int][]InstanceUser{0: {vllm}, 1: {vllm}, 4: {vllm}}, "1g.10gb@0 1g.10gb@1 3g.40gb@4"},
		{"two users of one", map[int][]InstanceUser{0: {vllm}, 4: {{Name: "b"}, {Name: "c"}}}, "3g.40gb@0 1g.10gb@4 1g.10gb@5"},
		{"a lease", map[int][]InstanceUser{0: {vllm}, 1: {{Name: "b"}}, 4: {{"lease.scope", true}}}, "3g.40gb@0 1g.10gb@4 1g.10gb@5"},
		{"two services and a lease", map[int][]InstanceUser{0: {{"lease.scope", true}}, 4: {vllm, {Name: "b"}}}, "1g.10gb@0 1g.10gb@1 3g.40gb@4"},
	} {
		got, err := PackKeeping(board.Profiles, want, Existing{now, tt.users})
		if text, _ := got.MarshalText(); err != nil || string(text) != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.name, text, err, tt.want)
		}
	}
}
