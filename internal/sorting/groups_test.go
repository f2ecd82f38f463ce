package sorting

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGroups(t *testing.T) {
	got := Groups(strings.Fields("b2 a1 b1 a2 c1"), func(s string) byte { return s[0] })
	want := [][]string{{"b2", "b1"}, {"a1", "a2"}, {"c1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}
