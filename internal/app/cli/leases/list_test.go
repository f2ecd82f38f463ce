package leases

import (
	"fmt"
	"testing"
)

func TestHeld(t *testing.T) {
	var names []string
	for gpu := range 8 {
		for part := range 8 {
			names = append(names, fmt.Sprintf("0000:%d5:00.0-%d", gpu, part))
		}
	}
	for _, c := range []struct {
		names []string
		long  bool
		want  string
	}{
		{names[:63], false, "63 partitions of 8 GPUs"},
		{names[6:18], false, "0000:05:00.0-[6-7] 0000:15:00.0-[0-7] 0000:25:00.0-[0-1]"},
		{names[3:5], true, "0000:05:00.0-3 0000:05:00.0-4"},
		{nil, false, ""},
	} {
		if got := held(c.names, c.long); got != c.want {
			t.Errorf("%d partitions: %q, want %q", len(c.names), got, c.want)
		}
	}
}
