package query

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/text"
)

// Dynamic GPUs with the same free slots share a line.
func TestPrintFreeSlots(t *testing.T) {
	free := []freeSlots{{"0000:1b:00.0", 0, 0}, {"0000:43:00.0", 3, 3}, {"0000:52:00.0", 1, 1}, {"0000:61:00.0", 3, 3}, {"0000:9d:00.0", 4, 2}}
	for _, width := range []int{0, 60, 80, 160} {
		var out bytes.Buffer
		con := &console.Console{Out: &out}
		if width > 0 {
			con = console.Fixed(&out, width)
		}
		printFreeSlots(con, free)
		for line := range strings.Lines(out.String()) {
			if n := text.Width(strings.TrimRight(line, "\n")); width > 0 && n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
		const want = `Dynamic: 0000:1b:00.0: 0 free memory slots
Dynamic: 0000:43:00.0, 0000:61:00.0: 3 free memory slots each
Dynamic: 0000:52:00.0: 1 free memory slot
Dynamic: 0000:9d:00.0: 4 free memory slots, at most 2 in a row
`
		if diff := cmp.Diff(want, out.String()); width != 60 && diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}
