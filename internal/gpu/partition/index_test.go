package partition

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withMissing returns the GPUs of a node without those at the positions, which are missing.
func withMissing(all []GPU, positions ...int) []GPU {
	var present []GPU
	var missing []Absent
	for i, g := range all {
		lost := false
		for _, p := range positions {
			lost = lost || p == i
		}
		if lost {
			missing = append(missing, Absent{g.Vendor, g.Address})
		} else {
			present = append(present, g)
		}
	}
	for i := range present {
		present[i].Missing = missing
	}
	return present
}

func fourGPUs() []GPU {
	var out []GPU
	for _, a := range []Address{"0000:05:00.0", "0000:26:00.0", "0000:46:00.0", "0000:65:00.0"} {
		out = append(out, GPU{Address: a, Vendor: AMD, XCC: 8, Compute: SPX, Memory: NPS1,
			AvailableCompute: []Compute{SPX, DPX, QPX, CPX}, AvailableMemory: []Memory{NPS1, NPS4}})
	}
	return out
}

// An index names the same GPU after the loss of another one, wherever that was.
func TestSelect_MissingGPU(t *testing.T) {
	all := fourGPUs()
	for lost := range all {
		gpus := withMissing(all, lost)
		for i, g := range all {
			for _, s := range []Selector{{Index: i}, {Address: g.Address}} {
				got, err := Select([]Selector{s}, gpus)
				missing, isMissing := errors.AsType[*MissingError](err)
				switch {
				case i == lost && (!isMissing || missing.Address != g.Address || len(got) > 0):
					t.Errorf("%s is lost, selector %s: got %v, %v; want that it is missing", g.Address, s, got, err)
				case i != lost && (err != nil || len(got) != 1 || got[0] != g.Address):
					t.Errorf("%s is lost, selector %s: got %v, %v; want %s", all[lost].Address, s, got, err, g.Address)
				}
			}
		}
		if _, err := Select([]Selector{{Index: 4}}, gpus); err == nil || !strings.Contains(err.Error(), "this node has 4 (0 to 3)") {
			t.Errorf("index 4: got %v, want that the node has 4", err)
		}
	}
}

// The GPUs that are present get the shapes of their own indices. A group of a missing GPU has none.
func TestLayout_MissingGPU(t *testing.T) {
	p := Profile{Name: "p", Groups: []Group{
		{Compute: CPX, GPUs: []Selector{{Index: 1}}}, {Compute: QPX, GPUs: []Selector{{Index: 2}}}, {Compute: SPX, Rest: true},
	}}
	for _, tt := range []struct {
		lost int
		want map[Address]Compute
	}{
		{0, map[Address]Compute{"0000:26:00.0": CPX, "0000:46:00.0": QPX, "0000:65:00.0": SPX}},
		{1, map[Address]Compute{"0000:05:00.0": SPX, "0000:46:00.0": QPX, "0000:65:00.0": SPX}},
		{2, map[Address]Compute{"0000:05:00.0": SPX, "0000:26:00.0": CPX, "0000:65:00.0": SPX}},
	} {
		l, err := p.Layout(withMissing(fourGPUs(), tt.lost))
		if err != nil {
			t.Fatalf("GPU %d is lost: %v", tt.lost, err)
		}
		got := make(map[Address]Compute)
		for a, s := range l.Shapes {
			got[a] = s.Compute
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("GPU %d is lost, modes (-want +got):\n%s", tt.lost, diff)
		}
	}
}

// Each vendor has its own indices, and a profile whose only group names a missing GPU changes nothing.
func TestLayout_MissingNVIDIAGPU(t *testing.T) {
	off := &MIG{Off: true}
	all := append(fourGPUs(), GPU{Address: "0000:01:00.0", Vendor: NVIDIA, MIG: off}, GPU{Address: "0000:66:00.0", Vendor: NVIDIA, MIG: off})
	seven := MIG{Instances: []Instance{{Profile: "1g.10gb"}}}
	p := Profile{Name: "p", Groups: []Group{{MIG: &seven, GPUs: []Selector{{Index: 0}}}}}
	if _, err := p.Layout(withMissing(all, 4, 5)); err != nil {
		t.Errorf("all NVIDIA GPUs are lost: %v", err)
	}
	l, err := p.Layout(withMissing(all, 4))
	if err != nil {
		t.Fatal(err)
	}
	if !l.Skipped["0000:66:00.0"] || !l.Shapes["0000:66:00.0"].MIG.Off {
		t.Errorf("the other NVIDIA GPU: got %s, want that it stays", l.Shapes["0000:66:00.0"])
	}
}
