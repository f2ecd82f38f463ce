package unitname

import "testing"

func TestIndexFor(t *testing.T) {
	entries := []string{"", "a@.service", "a@1.service", "b.service", "b.service"}
	for unit, want := range map[string]int{"a@1.service": 2, "a@2.service": 1, "a@.service": 1, "b.service": 3, "c.service": -1, "c@1.service": -1} {
		if got := IndexFor(unit, len(entries), func(i int) string { return entries[i] }); got != want {
			t.Errorf("%s: got %d, want %d", unit, got, want)
		}
	}
}
