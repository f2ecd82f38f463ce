package partition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCriteria(t *testing.T) {
	there := []string{"amd CPX/NPS1", "amd CPX/NPS1", "nvidia 3g.40gb", "nvidia 1g.10gb", "nvidia 1c.4g.40gb", "nvidia MIG off"}
	for _, tt := range []struct {
		vendor, mode string
		want         []string
		err          string
	}{
		{"", "", nil, ""},
		{"amd", "", []string{"amd CPX/NPS1"}, ""},
		{"nvidia", "", []string{"nvidia 3g.40gb", "nvidia 1g.10gb", "nvidia 1c.4g.40gb", "nvidia MIG off"}, ""},
		{"", "CPX", []string{"amd CPX/NPS1"}, ""},
		{"", "CPX/NPS1", []string{"amd CPX/NPS1"}, ""},
		{"nvidia", "3g.40gb", []string{"nvidia 3g.40gb"}, ""},
		{"", "1c.4g.40gb", []string{"nvidia 1c.4g.40gb"}, ""},
		{"", "CPX/NPS4", nil, "there is no partition CPX/NPS4: there are amd CPX/NPS1, nvidia 3g.40gb"},
		{"nvidia", "2g.20gb", nil, "there is no partition nvidia 2g.20gb: there are "},
		{"intel", "", nil, `vendor is "intel"; accepted are amd`},
		{"amd", "3g.40gb", nil, "mode 3g.40gb is for partitions of NVIDIA (want one for AMD)"},
		{"", "MIG 3g.40gb", nil, "no mode of a partition; accepted are a compute mode"},
		{"", "CPX/", nil, "no mode of a partition"},
		{"", "cpx", nil, "no mode of a partition"},
	} {
		s, err := ParseCriteria(tt.vendor, tt.mode)
		var got []string
		if err == nil {
			got, err = s.Match(there)
		}
		if tt.err == "" {
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%q %q: %v (-want +got):\n%s", tt.vendor, tt.mode, err, diff)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q %q: %v, want %q", tt.vendor, tt.mode, err, tt.err)
		}
	}
}

func TestKinds_Order(t *testing.T) {
	gpus, err := ParseNode("mi300x-1+h100-2")
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, g := range gpus {
		if g.Vendor == NVIDIA && len(got) == 1 {
			g.MIG = &MIG{Instances: []Instance{{Profile: "3g.40gb", Start: 4}, {Profile: "4g.40gb", Start: 0, Compute: []string{"1c.4g.40gb", "3c.4g.40gb"}}}}
		}
		got = append(got, g.Kinds())
	}
	want := [][]string{{"amd SPX/NPS1"}, {"nvidia 1c.4g.40gb", "nvidia 3c.4g.40gb", "nvidia 3g.40gb"}, {"nvidia MIG off"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
