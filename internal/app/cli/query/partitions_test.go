package query

import (
	"bytes"
	"strings"
	"testing"

	"dcm/internal/app/cli/console"
	"dcm/internal/frontends/status"
)

// A narrow terminal shows the modes of the partitions if they differ, otherwise the device nodes.
func TestPartitionTable_Columns(t *testing.T) {
	const holder = "dcm-exclusive-0-8b693381.scope"
	for kept, modes := range map[string][]string{"MODE": {"2g.20gb", "1g.10gb"}, "RENDER NODE": {"CPX/NPS4", "CPX/NPS4"}} {
		const narrow = 74
		var list []usedPart
		for _, mode := range modes {
			list = append(list, usedPart{Part: status.Part{Name: "0000:1b:00.0-0", Mode: mode, RenderNode: "/dev/dri/renderD128", Memory: 20 << 30}, Holders: []string{holder}})
		}
		var out bytes.Buffer
		partitionTable(console.Fixed(&out, narrow), list).Flush()
		head, _, _ := strings.Cut(out.String(), "\n")
		for _, column := range []string{"MODE", "RENDER NODE"} {
			if strings.Contains(head, column) != (column == kept) {
				t.Errorf("modes %q: columns %s, want only %s of the two", modes, head, kept)
			}
		}
	}
}
