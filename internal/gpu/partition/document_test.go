package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRemarks(t *testing.T) {
	const driverOnly = "accepted by the driver, not listed by AMD for "
	for _, tt := range []struct {
		name    string
		compute []Compute
		memory  Memory
		want    []string
	}{
		{"mi300x-8", []Compute{SPX}, NPS1, nil},
		{"mi325x-8", []Compute{SPX}, NPS1, nil},
		{"mi355x-8", []Compute{SPX}, NPS1, nil},
		{"mi308x-8", []Compute{SPX}, NPS1, nil},
		{"mi350p-8", []Compute{SPX}, NPS1, nil},
		{"mi300x-8", []Compute{DPX}, NPS2, nil},
		{"mi300x-8", []Compute{CPX}, NPS4, nil},
		{"mi300x-8", []Compute{CPX}, NPS1, []string{"listed by AMD for MI300X, not in its matrix of validated modes"}},
		{"mi300x-8", []Compute{QPX}, NPS4, []string{"listed by AMD for MI300X, not in its matrix of validated modes"}},
		{"mi325x-8", []Compute{DPX}, NPS2, []string{driverOnly + "MI325X"}},
		{"mi325x-8", []Compute{CPX}, NPS4, []string{driverOnly + "MI325X"}},
		{"mi355x-8", []Compute{DPX}, NPS2, nil},
		{"mi355x-8", []Compute{QPX}, NPS2, []string{"listed by AMD for MI355X, not in its matrix of validated modes"}},
		{"mi355x-8", []Compute{CPX}, NPS4, []string{driverOnly + "MI355X"}},
		{"mi300a-4", []Compute{TPX}, NPS1, []string{"listed by AMD for MI300A, not in its matrix of validated modes"}},
		{"mi300x-8", []Compute{SPX, CPX}, NPS1, []string{"mixed compute modes: not recommended or supported by AMD", "listed by AMD for MI300X, not in its matrix of validated modes"}},
		{"h100-8", nil, "", nil},
	} {
		gpus, err := ParseNode(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range gpus {
			if len(tt.compute) > 0 {
				gpus[i].Compute, gpus[i].Memory = tt.compute[i%len(tt.compute)], tt.memory
			}
		}
		var got []string
		for _, r := range Remarks(gpus) {
			if r.Source == (Document{}) {
				t.Errorf("%q has no source", r.Text)
			}
			got = append(got, r.Text)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s with %v/%s (-want +got):\n%s", tt.name, tt.compute, tt.memory, diff)
		}
	}
}

// A guest cannot read the modes of its host's GPU, so there are no remarks.
func TestRemarks_VirtualFunction(t *testing.T) {
	g := Typical(0x74b5, 1)[0]
	g.Compute = CPX
	if r := Remarks([]GPU{g}); r != nil {
		t.Errorf("%v", r)
	}
}

// Names differ by one GB between versions of the firmware of a board.
func TestSuggestion(t *testing.T) {
	for _, tt := range []struct{ board, name, want string }{
		{"GB200", "1g.24gb", "1g.23gb"},
		{"GB200", "1g.46gb", "1g.47gb"},
		{"GB200", "3g.95gb", "3g.93gb"},
		{"GB200", "7g.189gb", "7g.186gb"},
		{"B200-180GB", "1g.44gb", "1g.45gb"},
		{"H100-80GB", "1g.20gb+me", "1g.10gb+me"},
		{"A30", "3g.20gb", ""},
	} {
		b, _ := LookupBoard(tt.board)
		if tt.want != "" {
			tt.want = " (here that is " + tt.want + ")"
		}
		if got := suggestion(b.Profiles, tt.name); got != tt.want {
			t.Errorf("%s on %s: %q, want %q", tt.name, tt.board, got, tt.want)
		}
	}
}

func TestParseNode_EveryModel(t *testing.T) {
	for _, model := range NodeModels() {
		gpus, err := ParseNode(model + "-4")
		if err != nil || len(gpus) != 4 {
			t.Errorf("%s: %d GPUs, %v", model, len(gpus), err)
		}
	}
}
