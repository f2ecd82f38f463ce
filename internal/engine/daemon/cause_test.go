package daemon

import (
	"testing"

	"dcm/internal/gpu/partition"
)

func TestGPUHistory_Cause(t *testing.T) {
	const a, b, c = "0000:05:00.0", "0000:26:00.0", "0000:46:00.0"
	for _, tt := range []struct {
		name  string
		seen  [][]partition.Address
		now   []partition.Address
		cause string
	}{
		{"the same", [][]partition.Address{{a, b}}, []partition.Address{a, b}, "another program has changed the GPUs"},
		{"no observation yet", nil, []partition.Address{a}, "another program has changed the GPUs"},
		{"one is new", [][]partition.Address{{a}}, []partition.Address{a, b}, "a GPU was added: " + b},
		{"the first", [][]partition.Address{{}}, []partition.Address{a}, "a GPU was added: " + a},
		{"two are new", [][]partition.Address{{a}}, []partition.Address{a, b, c}, "GPUs were added: " + b + ", " + c},
		{"one is back", [][]partition.Address{{a, b}, {a}}, []partition.Address{a, b}, "a GPU came back: " + b},
		{"one is gone", [][]partition.Address{{a, b}}, []partition.Address{a}, "a GPU was removed: " + b},
		{"another in its place", [][]partition.Address{{a, b}}, []partition.Address{a, c}, "a GPU was added: " + c + "; a GPU was removed: " + b},
	} {
		var h gpuHistory
		for _, now := range tt.seen {
			h = h.with(now)
		}
		if got := h.cause(tt.now); got != tt.cause {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.cause)
		}
	}
}
