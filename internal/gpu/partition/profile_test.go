package partition

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLayout_Groups(t *testing.T) {
	have := node(mi300x, 4, NPS1)
	for _, test := range []struct {
		name    string
		profile Profile
		want    string // the compute mode of each GPU, - for skipped
	}{
		{"one mode for all", whole(CPX, ""), "CPX CPX CPX CPX"},
		{"the next two, then the rest", Profile{Groups: []Group{{Compute: CPX, Count: 2}, {Compute: DPX, Rest: true}}}, "CPX CPX DPX DPX"},
		{"skipped GPUs are not counted", Profile{Skip: []Selector{{Index: 0}}, Groups: []Group{{Compute: CPX, Count: 2}, {Compute: DPX, Rest: true}}}, "- CPX CPX DPX"},
		{"a GPU named later is not taken earlier", Profile{Groups: []Group{{Compute: CPX, Count: 2}, {Compute: DPX, GPUs: []Selector{{Index: 0}}}, {Compute: QPX, Rest: true}}}, "DPX CPX CPX QPX"},
		{"the rest before the last two", Profile{Groups: []Group{{Compute: DPX, Rest: true}, {Compute: CPX, Count: 2}}}, "DPX DPX CPX CPX"},
		{"the rest between", Profile{Groups: []Group{{Compute: SPX, Count: 1}, {Compute: DPX, Rest: true}, {Compute: CPX, Count: 1}}}, "SPX DPX DPX CPX"},
		{"an empty rest is no error", Profile{Groups: []Group{{Compute: CPX, Count: 4}, {Compute: DPX, Rest: true}}}, "CPX CPX CPX CPX"},
	} {
		t.Run(test.name, func(t *testing.T) {
			layout, err := test.profile.Layout(have)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, g := range have {
				if i > 0 {
					got += " "
				}
				if layout.Skipped[g.Address] {
					got += "-"
				} else {
					got += string(layout.Shapes[g.Address].Compute)
				}
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestLayout_Contradictions(t *testing.T) {
	three, eight := node(mi300x, 3, NPS1), node(mi300x, 8, NPS1)
	for _, test := range []struct {
		name    string
		have    []GPU
		profile Profile
		want    string
	}{
		{"an address that is not there, on a node of many", eight,
			Profile{Name: "p", Skip: []Selector{{Address: "0000:ff:00.0"}}, Compute: CPX},
			"profile \"p\" does not fit this node: skip: there is no partitionable GPU at 0000:ff:00.0: this node has 0000:05:00.0, 0000:26:00.0, 0000:46:00.0 and 5 more"},
		{"none of many in a group", eight,
			Profile{Name: "p", Groups: []Group{{Compute: CPX, Count: 1}}},
			"profile \"p\" does not fit this node: 7 GPUs are in no group (0000:26:00.0, 0000:46:00.0, 0000:65:00.0 and 4 more): add a group with count = \"rest\", or skip them"},
		{"an index that is not there, and a GPU named twice", three,
			Profile{Name: "p", Skip: []Selector{{Index: 3}, {Index: 1}}, Groups: []Group{{Compute: CPX, GPUs: []Selector{{Index: 1}}}, {Compute: SPX, Rest: true}}},
			"profile \"p\" does not fit this node: skip: there is no GPU with index 3: this node has 3 (0 to 2)\ngroup 1: GPU 1 is already named by skip"},
		{"an address that is not there", three,
			Profile{Name: "p", Skip: []Selector{{Address: "0000:ff:00.0"}}, Compute: CPX},
			"profile \"p\" does not fit this node: skip: there is no partitionable GPU at 0000:ff:00.0: this node has 0000:05:00.0, 0000:26:00.0, 0000:46:00.0"},
		{"more than there are", three,
			Profile{Name: "p", Groups: []Group{{Compute: CPX, Count: 4}}},
			"profile \"p\" does not fit this node: group 1: too many GPUs (found 4, want at most 3 of 3)"},
		{"fewer than there are", three,
			Profile{Name: "p", Groups: []Group{{Compute: CPX, Count: 1}}},
			"profile \"p\" does not fit this node: 2 GPUs are in no group (0000:26:00.0, 0000:46:00.0): add a group with count = \"rest\", or skip them"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.profile.Layout(test.have)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]Address{
		"0000:0c:00.0":  "0000:0c:00.0",
		"0C:00.0":       "0000:0c:00.0",
		"10000:0c:1f.7": "10000:0c:1f.7",
		"0000:0c:20.0":  "",
		"0000:0c:00.8":  "",
		"0000:0c:00":    "",
		"../0c:00.0":    "",
		"":              "",
	} {
		got, err := ParseAddress(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseAddress(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestAddressCompare(t *testing.T) {
	got := byAddress([]GPU{{Address: "10000:01:00.0"}, {Address: "0000:c5:00.0"}, {Address: "0000:0c:00.0"}})
	want := []Address{"0000:0c:00.0", "0000:c5:00.0", "10000:01:00.0"}
	if diff := cmp.Diff(want, addresses(got)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestModel_AcceptedAndValidated(t *testing.T) {
	m, _ := LookupModel(AMD, mi300x)
	for _, test := range []struct {
		c                   Compute
		n                   Memory
		accepted, validated bool
	}{
		{SPX, NPS1, true, true},
		{CPX, NPS4, true, true},
		{CPX, NPS1, true, false},
		{QPX, NPS4, true, false},
		{SPX, NPS4, false, false},
		{TPX, NPS1, false, false},
	} {
		if a, v := m.Accepts(test.c, test.n), m.Validated(test.c, test.n); a != test.accepted || v != test.validated {
			t.Errorf("%s/%s: accepted %t, validated %t; want %t, %t", test.c, test.n, a, v, test.accepted, test.validated)
		}
	}
}

func TestMemoryDomain(t *testing.T) {
	for _, tt := range []struct {
		mode Memory
		of   int
		want string
	}{
		{NPS1, 8, "[0 0 0 0 0 0 0 0]"}, {NPS4, 8, "[0 0 1 1 2 2 3 3]"}, {NPS4, 4, "[0 1 2 3]"},
		{NPS2, 2, "[0 1]"}, {NPS2, 4, "[0 0 1 1]"}, {NPS1, 1, "[0]"}, {"", 3, "[0 0 0]"},
	} {
		var got []int
		for i := range tt.of {
			got = append(got, tt.mode.Domain(i, tt.of))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s with %d partitions: %v, want %s", tt.mode, tt.of, got, tt.want)
		}
	}
}
