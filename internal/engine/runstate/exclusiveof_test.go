package runstate

import (
	"strings"
	"testing"
)

func TestReserved_ExclusiveOf(t *testing.T) {
	r := Reserved{Reservations: []Reservation{
		{Unit: "own.service", Partitions: []string{"a", "b"}, Exclusive: true},
		{Unit: "open.service", Partitions: []string{"c"}},
		{Unit: "shared@.service", Partitions: []string{"d"}, Exclusive: true, Share: 2},
	}}
	for unit, want := range map[string]string{"own.service": "a b", "open.service": "", "shared@1.service": "", "none.service": ""} {
		if got := strings.Join(r.ExclusiveOf(unit), " "); got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
}
