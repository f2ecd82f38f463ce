package selftest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

// cpx returns two GPUs of eight partitions each, in NPS4: the last memory domain is 16 MiB smaller.
func cpx() []GPU {
	var out []GPU
	for i, g := range mi300x() {
		g.Compute, g.Memory = partition.CPX, partition.NPS4
		one := GPU{GPU: g, NUMA: i, Bytes: 192<<30 - 16<<20}
		for n := range 8 {
			p := Part{Minor: 128 + 8*i + n, ID: string(rune('a' + 8*i + n)), XCC: 1, ComputeUnits: 38, Memory: 24 << 30}
			if n > 5 {
				p.Memory -= 8 << 20
			}
			one.Parts = append(one.Parts, p)
		}
		out = append(out, one)
	}
	return out
}

func TestSiblings(t *testing.T) {
	mig := []GPU{{GPU: h100()[0], Parts: []Part{
		{Profile: "3g.40gb", ComputeUnits: 60, Memory: 40 << 30}, {Profile: "1g.10gb", ComputeUnits: 16, Memory: 10 << 30}, {Profile: "1g.10gb", ComputeUnits: 16, Memory: 5 << 30}, {Profile: "1g.10gb", ComputeUnits: 16, Memory: 10 << 30},
	}}}
	with := func(lie func([]GPU)) []GPU {
		all := cpx()
		lie(all)
		return all
	}
	for name, tt := range map[string]struct {
		gpus []GPU
		want []string
	}{
		"honest": {cpx(), nil},
		"memory of one": {with(func(g []GPU) { g[1].Parts[3].Memory /= 2 }), []string{
			"memory of the partitions of a GPU: 0000:26:00.0: partition 3 has 12.0 GiB (want 24.0 GiB, as the others)",
			"sum of the partitions of a GPU: 0000:26:00.0: the partitions have 180.0 GiB (want 192.0 GiB)"}},
		"memory of all": {with(func(g []GPU) {
			for i := range g[0].Parts {
				g[0].Parts[i].Memory = 12 << 30
			}
		}), []string{"sum of the partitions of a GPU: 0000:05:00.0: the partitions have 96.0 GiB (want 192.0 GiB)"}},
		"compute units of one": {with(func(g []GPU) { g[0].Parts[0].ComputeUnits = 20 }), []string{
			"compute units of the partitions of a GPU: 0000:05:00.0: partition 0 has 20 compute units (want 38 compute units, as the others)",
			"sum of the partitions of a GPU: 0000:05:00.0: the partitions have 286 compute units (want 304, as before)"}},
		"slice of one": {with(func(g []GPU) { g[0].Parts[7].XCC = 2 }), []string{
			"slice sizes of the partitions of a GPU: 0000:05:00.0: partition 7 has 2 XCCs (want 1 XCCs, as the others)",
			"sum of the partitions of a GPU: 0000:05:00.0: the partitions have 9 XCCs (want 8)"}},
		"a host's memory": {with(func(g []GPU) { g[0].Bytes = 512 << 20 }), nil},
		"a MIG instance": {mig, []string{
			"memory of the partitions of a GPU: 0000:1b:00.0: partition 2 has 5.0 GiB (want 10.0 GiB, as the others)"}},
	} {
		var got []string
		for _, c := range Siblings("CPX/NPS4", tt.gpus, map[partition.Address]int{"0000:05:00.0": 304}) {
			if c.Verdict == Wrong {
				got = append(got, c.What+": "+c.Text)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTopologyIDs(t *testing.T) {
	for name, tt := range map[string]struct {
		lie  func([]GPU)
		want string
	}{
		"honest":       {func([]GPU) {}, "ids in KFD: right: 16 are different"},
		"zero":         {func(g []GPU) { g[0].Parts[1].ID = "0" }, "ids in KFD: wrong: 0000:05:00.0 partition 1 has no id"},
		"none":         {func(g []GPU) { g[0].Parts[1].ID = "" }, "ids in KFD: wrong: 0000:05:00.0 partition 1 has no id"},
		"a node twice": {func(g []GPU) { g[1].Parts[0].Minor = 130 }, "ids in KFD: wrong: 0000:26:00.0 partition 0 has the render node of 0000:05:00.0 partition 2 (renderD130)"},
		"twice":        {func(g []GPU) { g[1].Parts[0].ID = "c" }, "ids in KFD: wrong: 0000:26:00.0 partition 0 has the id of 0000:05:00.0 partition 2 (c)"},
	} {
		all := cpx()
		tt.lie(all)
		if diff := cmp.Diff(tt.want, verdicts(TopologyIDs("", all)...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := TopologyIDs("", []GPU{{GPU: h100()[0], Parts: []Part{{Profile: "7g.80gb"}}}}); got != nil {
		t.Errorf("ids of MIG instances: %v", got)
	}
}

func TestNUMANodes(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes  [2]int
		online []int
		want   string
	}{
		"two nodes":      {[2]int{0, 1}, []int{0, 1}, "right: 0, 1"},
		"unknown online": {[2]int{0, 1}, nil, "right: 0, 1"},
		"one is missing": {[2]int{0, -1}, []int{0, 1}, "wrong: 0000:26:00.0 has no NUMA node"},
		"only one has":   {[2]int{0, -1}, []int{0}, "wrong: 0000:26:00.0 has no NUMA node"},
		"one node":       {[2]int{-1, -1}, []int{0}, "right: none, on a host with one node"},
		"not online":     {[2]int{0, 3}, []int{0, 1}, "wrong: 0000:26:00.0 has NUMA node 3, which is not online"},
	} {
		all := cpx()
		all[0].NUMA, all[1].NUMA = tt.nodes[0], tt.nodes[1]
		if got := verdicts(NUMANodes("", all, tt.online)...); got != "NUMA nodes: "+tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestModeResult(t *testing.T) {
	m := ModeResult{Mode: "CPX/NPS4", Checks: about(Modes, newCheck("", "a", Right, ""), newCheck("", "b", NotSeen, "hidden"))}
	m.Checks = append(m.Checks, about(Daemon, newCheck("", "c", Wrong, "x"), newCheck("", "d", Right, ""))...)
	m.Checks = append(m.Checks, Check{What: "e", Verdict: Wrong, Text: "x"}, Check{What: "f", Verdict: Wrong, Text: "in use", Named: "python has it"})
	if m.Of(Modes) != NotSeen || m.Of(Daemon) != Wrong || m.Of(Library) != "" || m.Verdict() != Wrong {
		t.Errorf("%q %q %q %q", m.Of(Modes), m.Of(Daemon), m.Of(Library), m.Verdict())
	}
	if diff := cmp.Diff([]string{"x (c; e)", "python has it (f)"}, m.Failures()); diff != "" {
		t.Error(diff)
	}
}

func TestOutcome(t *testing.T) {
	for want, o := range map[string]Outcome{
		"All 8 modes are right.":        {Changed: true, Modes: 8},
		"1 of 8 modes is wrong.":        {Changed: true, Modes: 8, Wrong: 1},
		"2 of 8 modes are wrong.":       {Changed: true, Modes: 8, Wrong: 2},
		"The GPUs are read correctly.":  {},
		"The self-test found an error.": {Checks: []Check{{Verdict: Wrong}}},
	} {
		if got := o.Verdict(); got != want || o.Failed() != !strings.Contains(want, "right") && !strings.Contains(want, "correctly") {
			t.Errorf("%q, failed: %t, want %q", got, o.Failed(), want)
		}
	}
	hidden := Check{What: "libamd_smi", Verdict: NotSeen, Text: "not installed"}
	o := Outcome{Checks: []Check{hidden, {Verdict: Right, What: "x"}, hidden, {Verdict: Right, What: WhileOpen}}}
	if got := o.Notes(); !slices.Equal(got, []Check{hidden, {Verdict: Right, What: WhileOpen}}) {
		t.Errorf("notes %v", got)
	}
}
