package selftestcmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

func rowChecks(wrong ...selftest.Source) []selftest.Check {
	var out []selftest.Check
	for _, s := range []selftest.Source{selftest.Modes, selftest.Partitions, selftest.Library, selftest.Daemon, selftest.Nodes} {
		out = append(out, selftest.Check{What: "modes, by " + string(s), Source: s, Verdict: selftest.Right})
	}
	for i := range out {
		for _, s := range wrong {
			if out[i].Source == s {
				out[i].Verdict, out[i].Text = selftest.Wrong, "0000:46:00.0 has SPX/NPS1 (want DPX/NPS1)"
			}
		}
	}
	return out
}

// played shows a test on MI300X, with one wrong and one skipped mode.
func played(width int) string {
	var out bytes.Buffer
	con := &console.Console{Out: &out, Err: &out}
	if width > 0 {
		con = console.Fixed(&out, width)
	}
	v := &view{con: con}
	timing := func(took int64, phases map[string]int64) *selftest.Timing {
		return &selftest.Timing{Result: runstate.Applied, Took: took, Phases: phases}
	}
	for _, e := range []event{
		{Begin: &head{Modes: []string{"SPX/NPS1", "DPX/NPS1", "CPX/NPS4", "NPS8"}, Vendors: []partition.Vendor{partition.AMD}, Changed: true}},
		{Mode: &selftest.ModeResult{Mode: found, Checks: rowChecks()}},
		{Mode: &selftest.ModeResult{Mode: "SPX/NPS1", Checks: rowChecks()}},
		{Doing: "DPX/NPS1 (2 of 4)"},
		{Mode: &selftest.ModeResult{Mode: "DPX/NPS1", Timing: timing(600, map[string]int64{"stop": 210, "switch": 500, "start": 90}), Checks: rowChecks(selftest.Modes, selftest.Library)}},
		{Mode: &selftest.ModeResult{Mode: "CPX/NPS4", Timing: timing(71_400, map[string]int64{"stop": 210, "reload": 70_900, "settle": 100, "start": 90}), Checks: rowChecks()}},
		{Mode: &selftest.ModeResult{Mode: "NPS8", SkipReason: "no compute mode fits: NPS8 accepts no compute mode"}},
		{Outcome: &selftest.Outcome{Changed: true, Modes: 3, Wrong: 1, Counts: "17 right, 2 wrong", Facts: 9, Archive: "dcm-selftest.tar.gz",
			Checks: []selftest.Check{{What: selftest.WhileOpen, Verdict: selftest.Right, Text: "refused, and the process is named"}},
			Differ: []selftest.Row{{Model: "MI300X", Fact: "XCCs", Claimed: "8", Seen: "6"}}}},
	} {
		v.show(e)
	}
	return out.String()
}

func TestView(t *testing.T) {
	const want = `    MODE      CHANGE   STOP   RELOAD  SETTLE  SWITCH  START  SYSFS  KFD  SMI  DBUS  NODES
  ✓ as found  -        -      -       -       -       -      ✓      ✓    ✓    ✓     ✓
  ✓ SPX/NPS1  none     -      -       -       -       -      ✓      ✓    ✓    ✓     ✓
  × DPX/NPS1  0.9 s    0.2    -       -       0.5     0.1    ×      ✓    ×    ✓     ✓
      0000:46:00.0 has SPX/NPS1 (want DPX/NPS1) (modes, by modes; modes, by library)
  ✓ CPX/NPS4  71.7 s   0.2    70.9    0.1     -       0.1    ✓      ✓    ✓    ✓     ✓
  - NPS8      left out: no compute mode fits: NPS8 accepts no compute mode

  ✓ a change while a GPU is open: refused, and the process is named

1 of 9 facts differ from the simulator, which is no fault of the host:
  MODEL   FACT  SIMULATOR  SEEN
  MI300X  XCCs  8          6

1 of 3 modes is wrong. 17 right, 2 wrong; 1 differ from the simulator.
The archive is dcm-selftest.tar.gz. Read its CONTENTS.txt, and send it to the maintainers of dcm, see REPORTING BUGS in dcm(1).
`
	if diff := cmp.Diff(want, played(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, width := range []int{60, 80, 100, 160} {
		for line := range strings.Lines(played(width)) {
			if n := text.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
	if got := played(80); !strings.Contains(got, " STOP ") || !strings.Contains(got, " NODES") {
		t.Errorf("80 columns:\n%s", got)
	}
}

// Instances of MIG are made without a reload, and the sources are others.
func TestView_Columns(t *testing.T) {
	for name, tt := range map[string]struct {
		vendors []partition.Vendor
		want    string
	}{
		"NVIDIA": {[]partition.Vendor{partition.NVIDIA}, "MODE CHANGE STOP SWITCH START NVML PARTS PROC DBUS NODES"},
		"both":   {[]partition.Vendor{partition.AMD, partition.NVIDIA}, "MODE CHANGE STOP RELOAD SETTLE SWITCH START MODES PARTS OTHER DBUS NODES"},
	} {
		for _, width := range []int{60, 80, 160} {
			var out bytes.Buffer
			v := &view{con: console.Fixed(&out, width)}
			v.show(event{Begin: &head{Modes: []string{"all-1g.10gb.me"}, Vendors: tt.vendors, Changed: true}})
			if n := text.Width(strings.TrimRight(out.String(), "\n")); n > width {
				t.Errorf("%s: %d columns of %d", name, n, width)
			}
			if got := strings.Join(strings.Fields(out.String()), " "); width == 160 && got != tt.want {
				t.Errorf("%s: %s, want %s", name, got, tt.want)
			}
		}
	}
}

func TestLineReader(t *testing.T) {
	var file bytes.Buffer
	lines := &lineReader{from: &file}
	for _, tt := range []struct{ text, want string }{{"one\ntw", "one"}, {"", ""}, {"o\nthree\n", "two three"}} {
		file.WriteString(tt.text)
		if got := strings.Join(lines.read(), " "); got != tt.want {
			t.Errorf("after %q: %q, want %q", tt.text, got, tt.want)
		}
	}
}
