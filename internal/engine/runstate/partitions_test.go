package runstate

import (
	"slices"
	"testing"
)

// The reservation of an instance comes before that of its template, in any order of the list. A partition that
// the start of the unit creates is not that of another instance.
func TestReserved_Of(t *testing.T) {
	p := Reserved{Reservations: []Reservation{
		{Unit: "a@.service", Partitions: []string{"0"}, Share: 3},
		{Unit: "a@1.service", Partitions: []string{"1", "2"}},
		{Unit: "made@.service", Partitions: []string{"4", "5"}, Make: "1g.10gb"},
	}}
	for _, tt := range []struct {
		unit  string
		want  []string
		share int
	}{
		{"a@1.service", []string{"1", "2"}, 0}, {"a@2.service", []string{"0"}, 3},
		{"made@1.service", nil, 0}, {"b.service", nil, 0},
	} {
		if got, share := p.Of(tt.unit); !slices.Equal(got, tt.want) || share != tt.share {
			t.Errorf("%s: got %q shared by %d, want %q shared by %d", tt.unit, got, share, tt.want, tt.share)
		}
	}
}
