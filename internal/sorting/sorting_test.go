package sorting

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBy_Stable(t *testing.T) {
	byFirst := func(a, b string) int { return strings.Compare(a[:1], b[:1]) }
	list := strings.Fields("b2 a1 b1 a2 c1 a3 b3")
	want := strings.Fields("a1 a2 a3 b2 b1 b3 c1")
	if diff := cmp.Diff(want, From(slices.Values(list), byFirst)); diff != "" {
		t.Errorf("collected (-want +got):\n%s", diff)
	}
	By(list, byFirst)
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
	By([]string(nil), byFirst)
}
