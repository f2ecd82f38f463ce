package leases

import (
	"testing"

	"dcm/internal/frontends/status"
)

func TestSize(t *testing.T) {
	for want, q := range map[string]status.Queued{
		"0000:65:00.0-1":           {Partitions: 1, Names: []string{"0000:65:00.0-1"}},
		"1 partition":              {Partitions: 1},
		"2 GPUs":                   {GPUs: 2},
		"3 partitions, exclusive":  {Partitions: 3, Exclusive: true},
		"1 partition, shared by 4": {Partitions: 1, Share: 4},
		"7g.80gb":                  {Partitions: 1, Make: "7g.80gb"},
		"3 partitions in CPX":      {Partitions: 3, Make: "CPX"},
	} {
		if got := size(q); got != want {
			t.Errorf("%+v: got %q, want %q", q, got, want)
		}
	}
}
