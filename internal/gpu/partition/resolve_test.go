package partition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mixture is a node of two GPUs with modes, four H100 and one A30.
func mixture(t testing.TB) []GPU {
	t.Helper()
	gpus, err := ParseNode("mi300x-2+h100-4+a30-1")
	if err != nil {
		t.Fatal(err)
	}
	gpus[4].SubDevice = 0x1533
	return gpus
}

// one says the shape of each GPU, - for one that is left.
func one(gpus []GPU, l Layout) string {
	var out []string
	for _, g := range gpus {
		text := strings.ReplaceAll(l.Shapes[g.Address].String(), ", ", "+")
		if l.Skipped[g.Address] {
			text = "-"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func instances(t testing.TB, counts map[string]int) *MIG {
	t.Helper()
	m, err := NewMIG(counts)
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestLayout_MixedNode(t *testing.T) {
	have := mixture(t)
	one7, whole := instances(t, map[string]int{"1g.10gb": 7}), instances(t, map[string]int{"7g.80gb": 1})
	h100 := []Filter{{Device: 0x2330}}
	for _, tt := range []struct {
		name    string
		profile Profile
		want    string // or the end of the error
	}{
		{"modes only", Profile{Compute: CPX, Memory: NPS1}, "CPX/NPS1 CPX/NPS1 - - - - -"},
		{"MIG only", Profile{MIG: &MIG{Off: true}}, "- - MIG off MIG off MIG off MIG off MIG off"},
		{"both", Profile{Compute: CPX, MIG: &MIG{}}, "CPX/NPS1 CPX/NPS1" + strings.Repeat(" MIG on+empty", 5)},
		{"groups of both", Profile{Memory: NPS1, Groups: []Group{{Compute: CPX, Rest: true}, {MIG: one7, Devices: h100, Count: 2}, {MIG: whole, Devices: h100, Rest: true}}},
			"CPX/NPS1 CPX/NPS1 7 × 1g.10gb 7 × 1g.10gb 7g.80gb 7g.80gb -"},
		{"the rest before those of a filter", Profile{Groups: []Group{{MIG: &MIG{Off: true}, Rest: true}, {MIG: one7, Devices: h100, Rest: true}}},
			"- - 7 × 1g.10gb 7 × 1g.10gb 7 × 1g.10gb 7 × 1g.10gb MIG off"},
		{"the rest before the last one", Profile{Groups: []Group{{MIG: whole, Devices: h100, Rest: true}, {MIG: one7, Devices: h100, Count: 1}}},
			"- - 7g.80gb 7g.80gb 7g.80gb 7 × 1g.10gb -"},
		{"an index is one of the side", Profile{Groups: []Group{{Compute: CPX, Rest: true}, {MIG: whole, GPUs: []Selector{{Index: 1}}}}},
			"CPX/NPS1 CPX/NPS1 - 7g.80gb - - -"},
		{"named, but of another model", Profile{Groups: []Group{{MIG: whole, Devices: h100, GPUs: []Selector{{Index: 3}, {Index: 4}}}}},
			"- - - - - 7g.80gb -"},
		{"by the board", Profile{Groups: []Group{{MIG: whole, Devices: []Filter{{Device: 0x2330, SubDevice: 0x1533}}, Rest: true}}}, "- - - - 7g.80gb - -"},
		{"a family", Profile{Groups: []Group{{Family: Balanced, Rest: true}}}, "- -" + strings.Repeat(" 3g.40gb+2g.20gb+2 × 1g.10gb", 4) + " 2g.12gb+2 × 1g.6gb"},
		{"an ambiguous skipped index", Profile{Compute: CPX, MIG: &MIG{}, Skip: []Selector{{Index: 0}}},
			"skip: GPU 0 is ambiguous, since AMD and NVIDIA GPUs are counted separately: use the PCI address"},
		{"more than there are", Profile{Groups: []Group{{MIG: whole, Devices: h100, Count: 5}}}, "group 1: too many GPUs (found 5, want at most 4 of 4)"},
		{"none is meant", Profile{Groups: []Group{{MIG: whole, Devices: []Filter{{Device: 0x2901}}, Rest: true}}},
			"its groups match no GPU of this node (found MI300X, H100-80GB, A30, want device 0x2901)"},
		{"an index, and another model", Profile{Groups: []Group{
			{MIG: whole, Devices: []Filter{{Device: 0x20b2}}, GPUs: []Selector{{Index: 0}, {Index: 1}}},
			{MIG: one7, Devices: []Filter{{Device: 0x2901}}, GPUs: []Selector{{Index: 2}}}}},
			"its groups match no GPU of this node (found MI300X, H100-80GB, A30, want device 0x20b2, device 0x2901)"},
		{"one index for different models", Profile{Groups: []Group{
			{MIG: one7, Devices: []Filter{{Device: 0x20b2}}, GPUs: []Selector{{Index: 0}}}, {MIG: whole, Devices: h100, GPUs: []Selector{{Index: 0}}}}},
			"- - 7g.80gb - - - -"},
		{"an index of another model, and the rest", Profile{Groups: []Group{
			{MIG: one7, Devices: h100, GPUs: []Selector{{Index: 3}, {Index: 4}}}, {MIG: &MIG{Off: true}, Rest: true}}},
			"- - MIG off MIG off MIG off 7 × 1g.10gb MIG off"},
		{"one GPU in two groups", Profile{Groups: []Group{
			{MIG: one7, Devices: h100, GPUs: []Selector{{Index: 0}}}, {MIG: whole, Devices: h100, GPUs: []Selector{{Index: 0}}}}},
			"group 2: GPU 0 is already named by group 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := tt.profile.Layout(have)
			got := one(have, l)
			if err != nil {
				got = strings.TrimPrefix(err.Error(), `profile "" does not fit this node: `)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			if steps, err := Plan(l, have); err == nil {
				if left, err := Plan(l, Forecast(have, steps)); len(left) > 0 || err != nil {
					t.Errorf("after the steps there is still to do: %v (%v)", lines(left), err)
				}
			}
		})
	}
}

func TestPredefined_FitTheirBoards(t *testing.T) {
	for _, b := range Boards() {
		gpus := TypicalMIG(b, 2)
		all := PredefinedNames(gpus)
		if len(all) < 3+len(b.Profiles) {
			t.Errorf("%s has %v only", b.Name, all)
		}
		for _, name := range all {
			p, ok := Predefined(name)
			if !ok {
				t.Fatalf("%s is not known", name)
			}
			l, err := p.Layout(gpus)
			if err != nil {
				t.Fatalf("%s on %s: %v", name, b.Name, err)
			}
			if _, err := Plan(l, gpus); err != nil {
				t.Errorf("%s on %s: %v", name, b.Name, err)
			}
		}
	}
	if all := PredefinedNames(Typical(mi300x, 8)); len(all) > 0 {
		t.Errorf("GPUs with modes have %v", all)
	}
	for _, name := range []string{"", "all-", "all-1g", "1g.10gb", "all-1c.3g.40gb", "all-1g.10gb+me.x", "all-MIG 1g.10gb"} {
		if _, ok := Predefined(name); ok {
			t.Errorf("%q is known", name)
		}
	}
	silent := TypicalMIG(Board{Device: 0xffff}, 1)
	if p, _ := Predefined("all-1g.10gb"); true {
		if _, err := p.Layout(silent); err == nil || !strings.Contains(err.Error(), "select all-enabled first") {
			t.Errorf("a board that is not known, with MIG off: %v", err)
		}
	}
}

func TestDescribe_MixedNode(t *testing.T) {
	have := mixture(t)
	for _, i := range []int{2, 3} {
		have[i].MIG = &MIG{Instances: []Instance{{Profile: "3g.40gb", Start: 4}, {Profile: "1g.10gb", Start: 2, Compute: []string{"1c.1g.10gb"}}}}
	}
	p, err := Describe("now", have)
	if err != nil {
		t.Fatal(err)
	}
	if p.Compute != SPX || len(p.Groups) != 2 || p.Groups[0].Count != 2 || p.Groups[1].Count != 3 {
		t.Errorf("the description is %+v", p)
	}
	l, err := p.Layout(have)
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := Plan(l, have); len(steps) > 0 || err != nil {
		t.Errorf("the profile is another: %v (%v)", lines(steps), err)
	}
}

func BenchmarkPlanSixteen(b *testing.B) {
	board, _ := LookupBoard("RTX-PRO-6000") // with most profiles
	full, _ := LookupBoard("H100-80GB")
	for name, one := range map[string]struct {
		board      Board
		have, want string
	}{
		"seven": {full, "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6", "3g.40gb 2g.20gb 1g.10gb 1g.10gb"},
		"ones":  {full, "7g.80gb@0", "1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb"},
		"no":    {full, "7g.80gb@0", "4g.40gb 2g.20gb 1g.10gb 1g.20gb"},
		"four":  {board, "4g.96gb@0", "2g.48gb+gfx 1g.24gb+me 1g.24gb-me"},
	} {
		b.Run(name, func(b *testing.B) {
			have := TypicalMIG(one.board, 16)
			want := CurrentLayout(have)
			for i := range have {
				now, then := new(MIG), new(MIG)
				if now.UnmarshalText([]byte(one.have)) != nil || then.UnmarshalText([]byte(one.want)) != nil {
					b.Fatal("no geometry")
				}
				have[i].MIG = now
				want.Shapes[have[i].Address] = Shape{MIG: then}
			}
			for b.Loop() {
				steps, err := Plan(want, have)
				if (err != nil) != (name == "no") || err == nil && len(steps) != 32 {
					b.Fatalf("%d steps (%v)", len(steps), err)
				}
			}
		})
	}
}
