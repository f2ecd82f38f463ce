package runstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTotals_OneBoot(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	before := Totals{Runs: map[Result]int{Applied: 2}, Succeeded: early}
	for _, test := range []struct {
		name string
		last *Run
		then Result
		want Totals
	}{
		{"the first run", nil, Applied, Totals{map[Result]int{Applied: 1}, late}},
		{"one more", &Run{Boot: "b", Result: Applied, Totals: before}, Unchanged, Totals{map[Result]int{Applied: 2, Unchanged: 1}, late}},
		{"a failure leaves the last success", &Run{Boot: "b", Result: Applied, Totals: before}, Failed, Totals{map[Result]int{Applied: 2, Failed: 1}, early}},
		{"a run that was killed counts when the next begins", &Run{Boot: "b", Result: Running, Totals: before}, Applied,
			Totals{map[Result]int{Applied: 3, Killed: 1}, late}},
		{"another boot's do not count", &Run{Boot: "a", Result: Applied, Totals: before}, Applied, Totals{map[Result]int{Applied: 1}, late}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Since(test.last, "b").Plus(test.then, late)); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(map[Result]int{Applied: 2}, before.Runs); diff != "" {
		t.Errorf("the earlier totals were changed (-want +got):\n%s", diff)
	}
}
