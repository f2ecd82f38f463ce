package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

func TestAssign(t *testing.T) {
	on := func(g ...int) (out []partition.Address) {
		for _, n := range g {
			out = append(out, gpu(n))
		}
		return out
	}
	for _, tt := range []struct {
		name, taken string
		list        []Reservation
		want        map[string]string
		err         string
	}{
		{"the largest first, then the rest", "", []Reservation{
			{Name: "a", Want: Want{Partitions: 1}}, {Name: "b", Want: Want{Partitions: 3}},
		}, map[string]string{"a": "05:00.0-3", "b": "05:00.0-0 05:00.0-1 05:00.0-2"}, ""},
		{"present partitions are kept", "", []Reservation{
			{Name: "a", Want: Want{Partitions: 2}}, {Name: "b", Want: Want{Partitions: 1}, Now: []string{"0000:05:00.0-1"}},
		}, map[string]string{"a": "05:00.0-0 05:00.0-2", "b": "05:00.0-1"}, ""},
		{"a missing partition is replaced", "", []Reservation{
			{Name: "a", Want: Want{Partitions: 1}, Now: []string{"0000:05:00.0-7"}},
		}, map[string]string{"a": "05:00.0-0"}, ""},
		{"another number of partitions", "", []Reservation{
			{Name: "a", Want: Want{Partitions: 2}, Now: []string{"0000:25:00.0-3"}},
		}, map[string]string{"a": "05:00.0-0 05:00.0-1"}, ""},
		{"the most restricted first", "", []Reservation{
			{Name: "any", Want: Want{Partitions: 4}}, {Name: "first", Want: Want{Partitions: 1, Among: on(0)}},
		}, map[string]string{"any": "25:00.0-0 25:00.0-1 25:00.0-2 25:00.0-3", "first": "05:00.0-0"}, ""},
		{"a partition that another one needs", "", []Reservation{
			{Name: "any", Want: Want{Partitions: 4}, Now: []string{"0000:05:00.0-0", "0000:05:00.0-1", "0000:05:00.0-2", "0000:05:00.0-3"}},
			{Name: "first", Want: Want{Partitions: 1, Among: on(0)}},
		}, map[string]string{"any": "25:00.0-0 25:00.0-1 25:00.0-2 25:00.0-3", "first": "05:00.0-0"}, ""},
		{"too many", "0:0-0", []Reservation{
			{Name: "a", Want: Want{Partitions: 6}}, {Name: "b", Want: Want{Partitions: 2}},
		}, nil, "8 partitions reserved (a 6, b 2), and there are 7"},
		{"too many on one GPU", "", []Reservation{
			{Name: "a", Want: Want{Partitions: 3, Among: on(0)}}, {Name: "b", Want: Want{Partitions: 2, Among: on(0)}},
		}, nil, "5 partitions reserved (a 3, b 2), and there are 8, but not so many on the GPUs that are asked for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Assign(node(2, 4, 1), holes(tt.taken), tt.list)
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("error: got %v, want %q", err, tt.err)
				}
				return
			}
			names := make(map[string]string)
			for name, c := range got {
				names[name] = short(c.Partitions)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("reservations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAssign_Feasible derives random reservations from a solution, so that one exists, and checks the
// result of Assign.
func TestAssign_Feasible(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		all := ofKinds(node(4, 4, 2))
		list := feasible(r, all)
		got, err := Assign(all, nil, list)
		if err != nil {
			t.Fatalf("%+v: %v", list, err)
		}
		seen := make(map[string]string)
		for _, want := range list {
			c := got[want.Name]
			if len(c.Partitions) != want.Partitions {
				t.Errorf("%+v got %s", want, short(c.Partitions))
			}
			for _, p := range c.Partitions {
				if who := seen[p.Name]; who != "" {
					t.Errorf("%s is assigned to %s and %s", p.Name, who, want.Name)
				}
				seen[p.Name] = want.Name
				if want.Kinds != nil && !slices.Contains(want.Kinds, p.Kind) {
					t.Errorf("%s: partition %s: found kind %s, want %s", want.Name, p.Name, p.Kind, want.Kinds)
				}
				if want.Among != nil && !slices.Contains(want.Among, p.GPU) {
					t.Errorf("%s: partition %s: found another GPU, want one of %s", want.Name, p.Name, want.Among)
				}
			}
		}
		again, err := Assign(all, nil, keeping(list, got))
		if diff := cmp.Diff(got, again, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Reason" }, cmp.Ignore())); err != nil || diff != "" {
			t.Errorf("second call: %v (-first +again):\n%s", err, diff)
		}
	}
}

func feasible(r *rand.Rand, all []runstate.Part) []Reservation {
	rest := slices.Clone(all)
	r.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	var list []Reservation
	for i := 0; len(rest) > 0; i++ {
		n := 1 + r.IntN(min(6, len(rest)))
		want := Reservation{Name: fmt.Sprint("r", i), Want: Want{Partitions: n, Place: Places()[r.IntN(3)]}}
		if r.IntN(2) == 0 {
			want.Among = order(perGPU(rest[:n]))
		}
		if r.IntN(2) == 0 {
			for _, p := range rest[:n] {
				want.Kinds = append(want.Kinds, p.Kind)
			}
		}
		list, rest = append(list, want), rest[n:]
	}
	return list
}

func keeping(list []Reservation, got map[string]Choice) []Reservation {
	out := slices.Clone(list)
	for i, r := range out {
		for _, p := range got[r.Name].Partitions {
			out[i].Now = append(out[i].Now, p.Name)
		}
	}
	return out
}
