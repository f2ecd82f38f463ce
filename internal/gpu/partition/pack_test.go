package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func offered(t testing.TB, board string) []InstanceProfile {
	t.Helper()
	b, ok := LookupBoard(board)
	if !ok {
		t.Fatalf("no board %s", board)
	}
	return b.Profiles
}

// geometry reads "3g.40gb, 2 × 2g.20gb".
func geometry(t testing.TB, text string) MIG {
	t.Helper()
	counts := make(map[string]int)
	for f := range strings.SplitSeq(text, ", ") {
		n, name := 1, f
		if before, after, many := strings.Cut(f, " × "); many {
			if _, err := fmt.Sscan(before, &n); err != nil {
				t.Fatal(err)
			}
			name = after
		}
		if name != "" {
			counts[name] += n
		}
	}
	m, err := NewMIG(counts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func places(m MIG) string {
	out := make([]string, len(m.Instances))
	for i, one := range m.Instances {
		out[i] = fmt.Sprintf("%s@%d", one.Profile, one.Start)
		if len(one.Compute) > 0 {
			out[i] += "(" + strings.Join(one.Compute, " ") + ")"
		}
	}
	return strings.Join(out, " ")
}

func TestPack(t *testing.T) {
	for _, tt := range []struct{ board, want, places, err string }{
		{"H100-80GB", "7g.80gb", "7g.80gb@0", ""},
		{"H100-80GB", "", "", ""},
		{"H100-80GB", "3g.40gb, 2g.20gb, 2 × 1g.10gb", "2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4", ""},
		{"H100-80GB", "7 × 1g.10gb", "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6", ""},
		{"H100-80GB", "4g.40gb, 3g.40gb", "4g.40gb@0 3g.40gb@4", ""},
		{"H100-80GB", "3g.40gb, 4 × 1g.10gb", "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4", ""},
		{"H100-80GB", "1g.10gb+me, 6 × 1g.10gb", "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb+me@6", ""},
		{"H100-80GB", "2 × 1c.3g.40gb, 1c.2g.20gb", "3g.40gb@0(1c.3g.40gb 1c.3g.40gb) 2g.20gb@4(1c.2g.20gb)", ""},
		{"H100-80GB", "4 × 1c.3g.40gb", "3g.40gb@0(1c.3g.40gb) 3g.40gb@4(1c.3g.40gb 1c.3g.40gb 1c.3g.40gb)", ""},
		{"A30", "2g.12gb, 2 × 1g.6gb", "2g.12gb@0 1g.6gb@2 1g.6gb@3", ""},

		{"H100-80GB", "7g.80gb, 1g.10gb", "", "1g.10gb does not fit with 7g.80gb (no free slot)"},
		{"H100-80GB", "3g.40gb, 4g.40gb, 1g.10gb", "", "1g.10gb does not fit with 4g.40gb, 3g.40gb (no free slot)"},
		{"H100-80GB", "3g.40gb, 7g.80gb", "", "3g.40gb does not fit with 7g.80gb (no free slot)"},
		{"H100-80GB", "2g.20gb, 2 × 3g.40gb", "", "2g.20gb does not fit with 2 × 3g.40gb (no free slot)"},
		{"H100-80GB", "3g.40gb, 4 × 1g.20gb", "", "1g.20gb does not fit with 3g.40gb, 2 × 1g.20gb (no free slot)"},
		{"RTX-PRO-6000", "2g.48gb+me.all, 2g.48gb-me, 1g.24gb-me", "", "1g.24gb-me does not fit with 2g.48gb+me.all, 2g.48gb-me (no free slot)"},
		{"A100-40GB", "4g.20gb, 1g.10gb, 2 × 1g.5gb", "4g.20gb@0 1g.5gb@4 1g.5gb@5 1g.10gb@6", ""},
		{"A100-40GB", "4g.20gb, 2 × 2g.10gb", "", "2g.10gb does not fit with 4g.20gb, 2g.10gb (free slots 6–7, room for 1g.10gb or 1g.5gb or 1g.5gb+me)"},
		{"H100-80GB", "8 × 1g.10gb", "", "8 of 1g.10gb do not fit: this GPU has room for 7"},
		{"H100-80GB", "1g.5gb", "", "1g.5gb (here that is 1g.10gb) is no profile of this GPU, which has 7g.80gb, 4g.40gb, 3g.40gb, 2g.20gb, 1g.20gb, 1g.10gb, 1g.10gb+me"},
		{"H100-80GB", "5g.50gb", "", "5g.50gb is no profile of this GPU, which has 7g.80gb, 4g.40gb, 3g.40gb, 2g.20gb, 1g.20gb, 1g.10gb, 1g.10gb+me"},
		{"A30", "2g.12gb+me, 2 × 1g.6gb", "2g.12gb+me@0 1g.6gb@2 1g.6gb@3", ""},
		{"A30", "2g.12gb+me, 1g.6gb+me", "", "2 instances with +me do not fit: this GPU has media engines for 1"},
		{"A30", "2g.12gb+me, 1g.6gb+me, 1g.6gb", "", "2 instances with +me do not fit: this GPU has media engines for 1"},
		{"A30", "2 × 2g.12gb+me", "", "2 of 2g.12gb+me do not fit: this GPU has room for 1"},
		{"A30", "2g.12gb+me, 1g.6gb, 2g.12gb", "", "1g.6gb does not fit with 2g.12gb, 2g.12gb+me (no free slot)"},
		{"A30", "2g.12gb, 4g.24gb", "", "2g.12gb does not fit with 4g.24gb (no free slot)"},
		{"H100-80GB", "3g.40gb, 3 × 2g.20gb", "", "2g.20gb does not fit with 3g.40gb, 2 × 2g.20gb (no free slot)"},
		{"RTX-PRO-6000", "2g.48gb+me.all, 1g.24gb", "", "2g.48gb+me.all takes all media engines: only profiles with -me fit next to it (found 1g.24gb)"},
		{"RTX-PRO-6000", "2g.48gb+me.all, 2 × 1g.24gb-me", "2g.48gb+me.all@0 1g.24gb-me@2 1g.24gb-me@3", ""},
	} {
		t.Run(tt.board+" "+tt.want, func(t *testing.T) {
			got, err := Pack(offered(t, tt.board), geometry(t, tt.want))
			if err != nil || tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.places, places(got)); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if !got.Same(geometry(t, tt.want)) {
				t.Errorf("%s is not the same as %s", got, tt.want)
			}
		})
	}
}

// TestPack_FailureIsFinal compares Pack with a search of every placement of every
// instance, in every order of creation.
func TestPack_FailureIsFinal(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		board := Boards()[r.IntN(len(Boards()))]
		var m MIG
		for range 1 + r.IntN(7) {
			m.Instances = append(m.Instances, Instance{Profile: board.Profiles[r.IntN(len(board.Profiles))].Name, Start: unplaced})
		}
		p := packer{offered: make(map[string]InstanceProfile)}
		for _, s := range board.Profiles {
			p.offered[s.Name] = s
		}
		fits := p.validate(board.Profiles, m) == nil && brute(board.Profiles, m.Instances, 0)
		got, err := Pack(board.Profiles, m)
		if (err == nil) != fits {
			t.Fatalf("%s on %s: %v, but that it fits is %v", m, board.Name, err, fits)
		}
		if err != nil {
			continue
		}
		var taken uint
		for _, i := range got.Instances {
			s := board.Profiles[slices.IndexFunc(board.Profiles, func(s InstanceProfile) bool { return s.Name == i.Profile })]
			if taken&s.slotMask(i.Start) != 0 || !slices.Contains(s.Starts, i.Start) {
				t.Errorf("%s on %s: %s", m, board.Name, places(got))
			}
			taken |= s.slotMask(i.Start)
		}
		if again, err := Pack(board.Profiles, got); err != nil || !cmp.Equal(again, got) {
			t.Errorf("%s packed again is %s (%v)", places(got), places(again), err)
		}
	}
}

func brute(offered []InstanceProfile, list []Instance, taken uint) bool {
	if len(list) == 0 {
		return true
	}
	for _, s := range offered {
		if s.Name != list[0].Profile {
			continue
		}
		for _, start := range s.Starts {
			if run := s.slotMask(start); taken&run == 0 && brute(offered, list[1:], taken|run) {
				return true
			}
		}
	}
	return false
}

func TestParseMIGProfile(t *testing.T) {
	for _, name := range []string{"1g.5gb", "7g.141gb", "1c.3g.20gb", "1g.10gb+me", "2g.48gb+me.all", "1g.24gb+gfx", "1g.24gb-me", "2c.4g.40gb+gfx"} {
		if p, err := ParseMIGProfile(name); err != nil || p.String() != name {
			t.Errorf("%s is read as %s (%v)", name, p, err)
		}
	}
	if p, err := ParseMIGProfile("MIG 1g.10gb"); err != nil || p.String() != "1g.10gb" {
		t.Errorf("the driver's own form is read as %s (%v)", p, err)
	}
	for _, name := range []string{"", "1g", "1g.gb", "0g.5gb", "1g.5GB", "4c.3g.20gb", "5c.7g.40gb", "1g.5gb+", "1g.5gb+me+gfx", "1g.5gb\n", "x1g.5gb"} {
		if p, err := ParseMIGProfile(name); err == nil {
			t.Errorf("%q is read as %s", name, p)
		}
	}
}

func TestMIGSame(t *testing.T) {
	at := func(m MIG, starts ...int) MIG {
		for i, s := range starts {
			m.Instances[i].Start = s
		}
		return m
	}
	for _, tt := range []struct {
		a, b MIG
		same bool
	}{
		{geometry(t, "2 × 1g.10gb"), at(geometry(t, "2 × 1g.10gb"), 3, 5), true},
		{geometry(t, "2 × 1g.10gb"), geometry(t, "3 × 1g.10gb"), false},
		{geometry(t, ""), geometry(t, ""), true},
		{geometry(t, "3g.40gb"), geometry(t, "1c.3g.40gb"), false},
		{geometry(t, "3g.40gb"), MIG{Instances: []Instance{{Profile: "3g.40gb", Start: unplaced, Compute: []string{"3c.3g.40gb"}}}}, true},
		{geometry(t, "3g.40gb, 1g.10gb"), geometry(t, "1g.10gb, 3g.40gb"), true},
	} {
		if tt.a.Same(tt.b) != tt.same || tt.b.Same(tt.a) != tt.same {
			t.Errorf("%s and %s: want same %v", places(tt.a), places(tt.b), tt.same)
		}
	}
	if got := geometry(t, "2 × 1c.3g.40gb, 1g.10gb").Partitions(); got != 3 {
		t.Errorf("%d partitions, want 3", got)
	}
}

func TestNewMIG_InvalidCount(t *testing.T) {
	for _, n := range []int{0, -1, 65} {
		if m, err := NewMIG(map[string]int{"1g.10gb": n}); err == nil {
			t.Errorf("%d of a profile are %s", n, m)
		}
	}
}

func BenchmarkPack16(b *testing.B) {
	want, slots := geometry(b, "3g.40gb, 2g.20gb, 2 × 1g.10gb"), offered(b, "H100-80GB")
	for b.Loop() {
		for range 16 {
			if _, err := Pack(slots, want); err != nil {
				b.Fatal(err)
			}
		}
	}
}
