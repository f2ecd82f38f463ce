package lease

import (
	"strings"
	"testing"

	"dcm/internal/report"
)

func TestWhatIsExclusive(t *testing.T) {
	p := report.Partitions{
		Parts: []report.Part{
			{Name: "a-0", Render: "/dev/dri/renderD128", Card: "/dev/dri/card1"},
			{Name: "a-1", Render: "/dev/dri/renderD129", Card: "/dev/dri/card2"},
			{Name: "a-2", Render: "/dev/dri/renderD130"},
			{Name: "a-3", Render: "/dev/dri/renderD131", Card: "/dev/dri/card4"},
		},
		Reservations: []report.Reservation{
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
	want := "/dev/dri/renderD128 /dev/dri/card1 /dev/dri/renderD130"
	if got := strings.Join(ExclusiveNodes(p, units), " "); got != want {
		t.Errorf("exclusive are %s, want %s", got, want)
	}
}
