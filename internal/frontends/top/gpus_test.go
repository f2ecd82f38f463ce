package top

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// two returns a busy GPU of two partitions and an idle one, of which the memory is unknown.
func two() status.Usage {
	part := func(gpu string, used *uint64, busy float64, holders ...string) status.PartUse {
		return status.PartUse{Name: gpu + "-0", GPU: gpu, Mode: "DPX/NPS1", Memory: 96 << 30, Used: used, Busy: &busy, Holders: holders}
	}
	const scope = "dcm-lease-1000-4f1c09aa.scope"
	return status.Usage{
		Parts:  []status.PartUse{part("0000:05:00.0", known(uint64(48)<<30), 100, scope), part("0000:05:00.0", known(uint64(0)), 90), part("0000:26:00.0", nil, 0)},
		Leases: []status.Lease{{Lease: scope, User: "ada", Command: "python"}},
	}
}

func TestLoads_Lines(t *testing.T) {
	var got []string
	for _, l := range loads(two()) {
		got = append(got, l.line(80))
	}
	if diff := cmp.Diff([]string{
		"0000:05:00.0 DPX/NPS1 ▕███████████████████████░▏  95 %  48G of 192G     1/2 held",
		"0000:26:00.0 DPX/NPS1 ▕░░░░░░░░░░░░░░░░░░░░░░░░▏   0 %  -               0/1 held",
	}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	for width := 20; width < 200; width++ {
		for _, l := range loads(two()) {
			if n := text.Width(l.line(width)); n > max(width, 60) {
				t.Errorf("width %d: a line of %d", width, n)
			}
		}
	}
}

func TestPainted_ByLoad(t *testing.T) {
	all := loads(two())
	if got := painted(all[0].line(80), all[0].colour()); !strings.Contains(got, "▕\x1b[31m██") || !strings.Contains(got, "░\x1b[0m▏") {
		t.Errorf("a busy GPU is painted as %q", got)
	}
	if got := painted(all[1].line(80), all[1].colour()); strings.Contains(got, "\x1b") {
		t.Errorf("an idle GPU is painted as %q", got)
	}
}

// A lease whose command has not opened its partition yet is shown with its user and command.
func TestText_Lease(t *testing.T) {
	shown := Text(two(), Order{By: "partition"}, 80)
	if !strings.Contains(shown, "ada      lease 4f1c09aa python") {
		t.Errorf("no user and command of the lease in\n%s", shown)
	}
	for _, width := range []int{60, 80, 160} {
		for line := range strings.Lines(Text(two(), Order{By: "partition"}, width)) {
			if n := text.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
	}
}
