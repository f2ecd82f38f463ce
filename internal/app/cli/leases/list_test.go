package leases

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"dcm/internal/app/cli/console"
	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// With --long a wide terminal shows no fewer columns than without.
func TestPrintLeases(t *testing.T) {
	lease := status.Lease{Lease: "dcm-lease-1001-1bdf0ae5.scope", User: "bob", Command: "train"}
	for part := range 8 {
		lease.Partitions = append(lease.Partitions, fmt.Sprintf("0000:65:00.0-%d", part))
	}
	for _, tt := range []struct {
		width int
		long  bool
		since bool
	}{{60, false, false}, {80, false, false}, {160, false, true}, {60, true, false}, {80, true, false}, {160, true, true}, {0, true, true}} {
		var out bytes.Buffer
		con := &console.Console{Out: &out}
		if tt.width > 0 {
			con = console.Fixed(&out, tt.width)
		}
		printLeases(con, []status.Lease{lease}, tt.long)
		if got := strings.Contains(out.String(), "SINCE"); got != tt.since {
			t.Errorf("width %d, long %t: column SINCE: %t\n%s", tt.width, tt.long, got, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := text.Width(strings.TrimRight(line, "\n")); tt.width > 0 && n > tt.width {
				t.Errorf("width %d, long %t: a line of %d: %s", tt.width, tt.long, n, line)
			}
		}
	}
}

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
