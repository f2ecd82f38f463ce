package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Some drivers report a wrong number of instances for an A30.
func TestInstanceCount_CorrectedFromTable(t *testing.T) {
	gpus, err := ParseNode("a30-1")
	if err != nil {
		t.Fatal(err)
	}
	g := gpus[0]
	told, _ := BoardOf(g)
	for _, wrong := range []int{-1, 1} {
		g.Profiles = nil
		for _, s := range told.Profiles {
			s.InstanceCount += wrong
			g.Profiles = append(g.Profiles, s)
		}
		four, _ := NewMIG(map[string]int{"1g.6gb": 4})
		if _, err := g.pack(four, Existing{}); err != nil {
			t.Errorf("reported %+d: four instances do not fit: %v", wrong, err)
		}
		two, _ := NewMIG(map[string]int{"1g.6gb+me": 2})
		if _, err := g.pack(two, Existing{}); err == nil {
			t.Errorf("reported %+d: two instances with media engines fit", wrong)
		}
		if m, err := Family("1g.6gb").geometry(g); err != nil || m.Partitions() != 4 {
			t.Errorf("reported %+d: all of them are %s, %v", wrong, m, err)
		}
	}
}

func TestInstanceCount_OfTable(t *testing.T) {
	for _, b := range Boards() {
		if diff := cmp.Diff(b.Profiles, withKnownCounts(GPU{Vendor: NVIDIA, Device: b.Device}, b.Profiles)); diff != "" {
			t.Errorf("%s (-table +counted):\n%s", b.Name, diff)
		}
	}
}
