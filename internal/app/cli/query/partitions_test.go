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

// A MIG instance whose lease has ended, and that is not destroyed yet, is explained: dcm leases does not list it.
func TestPrintMade_Leftover(t *testing.T) {
	const lease, ended = "dcm-lease-0-82908518.scope", "dcm-lease-0-9a699865.scope"
	a := status.Account{Leases: []status.Lease{{Lease: lease, Partitions: []string{"0000:1b:00.0-0"}}}, Parts: []status.Part{
		{Name: "0000:1b:00.0-0", Holders: []string{lease}}, {Name: "0000:1b:00.0-4", Holders: []string{ended}}, {Name: "0000:1b:00.0-5", Holders: []string{"train.service"}}, {Name: "0000:1b:00.0-6"},
	}}
	const want = "0000:1b:00.0-4 is not free yet: " + ended + " has ended, and dcm destroys its instance when the driver permits it\n"
	var out bytes.Buffer
	printMade(&console.Console{Out: &out}, a)
	if out.String() != want {
		t.Errorf("want %q, got:\n%s", want, out.String())
	}
	a.Hidden = []status.Unavailable{{Part: "leases", Why: "no access"}}
	if len(status.Leftovers(a)) > 0 {
		t.Error("without the leases no partition is known to be left")
	}
}
