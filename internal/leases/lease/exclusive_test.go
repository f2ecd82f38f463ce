package lease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

func TestExclusiveParts(t *testing.T) {
	p := runstate.Partitions{
		Parts: []runstate.Part{
			{Name: "a-0", Render: "/dev/dri/renderD128", Card: "/dev/dri/card1"},
			{Name: "a-1", Render: "/dev/dri/renderD129", Card: "/dev/dri/card2"},
			{Name: "a-2", Render: "/dev/dri/renderD130"},
			{Name: "a-3", Render: "/dev/dri/renderD131", Card: "/dev/dri/card4"},
		},
		Reservations: []runstate.Reservation{
			{Name: "vllm", Partitions: []string{"a-0"}, Exclusive: true},
			{Name: "slurm", Partitions: []string{"a-1"}},
			{Name: "none", Exclusive: true},
		},
	}
	units := map[string][]string{
		"dcm-exclusive-1000-00c0ffee.scope": {"/dev/kfd", "/dev/dri/renderD130"},
		"dcm-lease-1000-00c0ffef.scope":     {"/dev/kfd", "/dev/dri/renderD131"},
		"vllm.service":                      {"/dev/kfd", "/dev/dcm/vllm/render0"},
	}
	want := []string{
		"a-0 vllm [/dev/dri/renderD128 /dev/dri/card1]",
		"a-2 dcm-exclusive-1000-00c0ffee.scope [/dev/dri/renderD130]",
	}
	var got []string
	for _, e := range ExclusiveParts(p, units) {
		got = append(got, fmt.Sprint(e.Name, " ", e.Holder, " ", e.Nodes()))
		if (e.Reservation == nil) != strings.HasSuffix(e.Holder, ".scope") {
			t.Errorf("%s has the reservation %v", e.Holder, e.Reservation)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exclusive (-want +got):\n%s", diff)
	}
}
