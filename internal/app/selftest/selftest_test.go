package selftest

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

func mi300x() []partition.GPU {
	var out []partition.GPU
	for _, a := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		out = append(out, partition.GPU{
			Address: a, Vendor: partition.AMD, Device: 0x74a1, XCC: 8, Hive: 1, Compute: partition.SPX, Memory: partition.NPS1,
			AvailableCompute: []partition.Compute{partition.SPX, partition.DPX, partition.QPX, partition.CPX},
			AvailableMemory:  []partition.Memory{partition.NPS1, partition.NPS2, partition.NPS4, partition.NPS8},
		})
	}
	return out
}

// summary lists the targets: "+" for those that are applied, "-" for skipped ones.
func summary(all []Target) string {
	var out []string
	for _, t := range all {
		sign := "+"
		if t.SkipReason != "" {
			sign = "-"
		}
		out = append(out, sign+t.Mode)
	}
	return strings.Join(out, " ")
}

func TestTargets(t *testing.T) {
	vf := mi300x()
	for i := range vf {
		vf[i].ReadOnly = true
	}
	in4 := mi300x()
	for i := range in4 {
		in4[i].Memory, in4[i].Compute, in4[i].AvailableCompute = partition.NPS4, partition.CPX, []partition.Compute{partition.QPX, partition.CPX}
	}
	unknown := mi300x()
	for i := range unknown {
		unknown[i].Device, unknown[i].AvailableMemory = 0x7fff, nil
	}
	tests := map[string]struct {
		gpus   []partition.GPU
		reload bool
		want   string
	}{
		"MI300X":             {mi300x(), true, "+SPX/NPS1 +DPX/NPS1 +QPX/NPS1 +CPX/NPS1 +DPX/NPS2 +CPX/NPS4 +QPX/NPS4 -NPS8"},
		"without reloads":    {mi300x(), false, "+SPX/NPS1 +DPX/NPS1 +QPX/NPS1 +CPX/NPS1 -DPX/NPS2 -CPX/NPS4 -QPX/NPS4 -NPS8"},
		"in NPS4":            {in4, true, "+CPX/NPS4 +QPX/NPS4 +SPX/NPS1 +DPX/NPS1 +QPX/NPS1 +CPX/NPS1 +DPX/NPS2 -NPS8"},
		"virtual functions":  {vf, true, "+SPX/NPS1 -DPX/NPS1 -QPX/NPS1 -CPX/NPS1 -NPS2 -NPS4 -NPS8"},
		"an unknown model":   {unknown, true, "+SPX/NPS1 +DPX/NPS1 +QPX/NPS1 +CPX/NPS1"},
		"there are no GPUs":  {nil, true, ""},
		"GPUs that have MIG": {h100(), true, "+all-1g.10gb +all-1g.10gb.me +all-1g.20gb +all-2g.20gb +all-3g.40gb +all-4g.40gb +all-7g.80gb +all-balanced +all-disabled +all-enabled"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, summary(Targets(tt.gpus, tt.reload))); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func h100() []partition.GPU {
	b, _ := partition.LookupBoard("H100-80GB")
	return []partition.GPU{{Address: "0000:1b:00.0", Vendor: partition.NVIDIA, Device: b.Device, MIG: &partition.MIG{Off: true}, Profiles: b.Profiles}}
}

func TestUnlistedReason(t *testing.T) {
	all := Targets(mi300x(), true)
	now := mi300x()
	for i := range now {
		now[i].Memory, now[i].AvailableCompute = partition.NPS4, []partition.Compute{partition.CPX}
	}
	got := make(map[string]string)
	for _, one := range all {
		if why := one.UnlistedReason(now); why != "" {
			got[one.Mode] = why
		}
	}
	if diff := cmp.Diff(map[string]string{"QPX/NPS4": "0000:05:00.0 lists CPX with NPS4"}, got); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

func TestBefore(t *testing.T) {
	gpus := mi300x()
	gpus[1].Compute = partition.CPX
	p, err := Before(gpus)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := p.Layout(mi300x())
	if err != nil || layout.Shapes["0000:26:00.0"].Compute != partition.CPX || layout.Shapes["0000:05:00.0"].Compute != partition.SPX {
		t.Errorf("%+v, %v", layout, err)
	}
	gpus[1].Memory = partition.NPS2
	if _, err := Before(gpus); err == nil {
		t.Error("what no profile can say is gone back to")
	}
}

func verdicts(all ...Check) string {
	var out []string
	for _, c := range all {
		out = append(out, c.What+": "+string(c.Verdict)+": "+c.Text)
	}
	return strings.Join(out, "\n")
}

func TestCompareView(t *testing.T) {
	want := View{Modes: map[string]string{"a": "CPX", "b": "CPX"}, Parts: map[string]int{"a": 8, "b": 8}}
	tests := map[string]struct {
		got  View
		want string
	}{
		"the same":     {View{By: "x", Modes: map[string]string{"a": "CPX", "b": "CPX", "c": "not ours"}}, "modes, by x: right: 2 GPUs: CPX"},
		"another mode": {View{By: "x", Modes: map[string]string{"a": "CPX", "b": "SPX"}}, "modes, by x: wrong: b has SPX (want CPX)"},
		"one missing":  {View{By: "x", Source: Library, Parts: map[string]int{"b": 7}}, "partitions, by x: wrong: a is missing; b has 7 (want 8)"},
		"of one vendor": {View{By: "x", GPUs: []string{"b"}, Modes: map[string]string{"b": "CPX"}, Parts: map[string]int{"b": 8}},
			"modes, by x: right: 1 GPUs: CPX\npartitions, by x: right: 1 GPUs: 8"},
		"not there": {View{By: "x", Problem: "not installed"}, "the GPUs, by x: not seen: not installed"},
		"nothing":   {View{By: "x"}, "the GPUs, by x: not seen: nothing is reported"},
		"a part": {View{By: "x", Modes: map[string]string{"a": "CPX"}, Problem: "b: broken"},
			"modes, by x: wrong: b is missing\nthe GPUs, by x: not seen: b: broken"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := CompareView("", want, tt.got)
			if diff := cmp.Diff(tt.want, verdicts(got...)); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
			if slices.ContainsFunc(got, func(c Check) bool { return c.Source != tt.got.Source }) {
				t.Errorf("sources of %v, want %q", got, tt.got.Source)
			}
			if Failed(got) != strings.Contains(tt.want, "wrong") {
				t.Errorf("red is %v", Failed(got))
			}
		})
	}
}

func TestNodesAndModeFiles(t *testing.T) {
	tests := map[string]struct{ got, want Check }{
		"nodes":          {DeviceNodes("", []File{{Path: "/dev/kfd", Mode: fs.ModeCharDevice | 0o660}}), newCheck("", "device nodes", Right, "1 exist")},
		"a node missing": {DeviceNodes("", []File{{Path: "n", Err: errors.New("n is not there")}}), newCheck("", "device nodes", Wrong, "n is not there")},
		"a closed node":  {DeviceNodes("", []File{{Path: "n", Mode: 0o400}}), newCheck("", "device nodes", Wrong, "n is not readable and writable: its mode is -r--------")},
		"files":          {ModeFiles("", []File{{Path: "f", Mode: 0o644}}), newCheck("", "files that modes are written to", Right, "1 are writable for root only")},
		"world-writable": {ModeFiles("", []File{{Path: "f", Mode: 0o666}}), newCheck("", "files that modes are written to", Wrong, "f is writable for users other than root: its mode is -rw-rw-rw-")},
		"not writable":   {ModeFiles("", []File{{Path: "f", Mode: 0o444}}), newCheck("", "files that modes are written to", Wrong, "f is not writable: its mode is -r--r--r--")},
	}
	for name, tt := range tests {
		tt.want.Source = Nodes
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTable(t *testing.T) {
	claimed := Facts{"MI300X": {"XCCs": "8", "compute modes with NPS4": "QPX, CPX"}, "MI325X": {"XCCs": "8"}}
	seen := make(Facts)
	gpus := mi300x()
	seen.AddGPUs([]GPU{{GPU: gpus[0], Model: "MI300X", Parts: []Part{{Minor: 128, ComputeUnits: 304, Memory: 192 << 30}}}})
	gpus[1].XCC = 6
	seen.AddGPUs([]GPU{{GPU: gpus[1], Model: "MI300X"}})
	rows := make(map[string]Row)
	for _, r := range Table(claimed, seen) {
		rows[r.Fact] = r
	}
	want := Row{"MI300X", "XCCs", "8", "8 or 6"}
	if got := rows["XCCs"]; got != want || !got.Differs() {
		t.Errorf("%+v", got)
	}
	want = Row{"MI300X", "compute modes with NPS4", "QPX, CPX", ""}
	if got := rows[want.Fact]; got != want || got.Differs() {
		t.Errorf("%+v", got)
	}
	if got := rows["memory of a partition in SPX/NPS1"].Seen; got != "192.0 GiB or " {
		t.Errorf("the memory is %q", got)
	}
}

func TestAddDriverDefault(t *testing.T) {
	f := make(Facts)
	reload := runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}}
	to := func(from string) runstate.Step {
		return runstate.Step{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "a", From: from, To: "QPX"}}
	}
	now := partition.Shape{Mode: partition.Mode{Compute: partition.QPX, Memory: partition.NPS4}}
	f.AddDriverDefault(runstate.Run{GPUs: []runstate.GPU{{Address: "a", Model: "X", Now: now}}, Steps: []runstate.Step{to("DPX")}})
	if len(f) != 0 {
		t.Errorf("without a load: %v", f)
	}
	f.AddDriverDefault(runstate.Run{GPUs: []runstate.GPU{{Address: "a", Model: "X", Now: now}, {Address: "b", Model: "Y", Now: now}}, Steps: []runstate.Step{reload, to("CPX")}})
	const fact = "driver's compute mode with NPS4"
	if diff := cmp.Diff(Facts{"X": {fact: "CPX"}, "Y": {fact: "QPX"}}, f); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestPersistence(t *testing.T) {
	up := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &Record{Boot: "one", Taken: up.Add(-3 * time.Minute), Modes: map[string]string{"a": "CPX/NPS4", "b": "CPX/NPS4"}}
	found := map[string]string{"a": "SPX/NPS1", "b": "SPX/NPS1"}
	tests := map[string]struct {
		r     *Record
		b     Boot
		power bool
		want  string
	}{
		"the first":    {nil, Boot{ID: "one"}, false, "this is the first"},
		"the same":     {r, Boot{ID: "one", Found: found}, true, "not been booted"},
		"too late":     {r, Boot{ID: "two", Up: up}, true, "are unknown"},
		"a power-off":  {r, Boot{"two", up, found}, true, "after a power-off, down for 3m0s at most: CPX/NPS4 before, SPX/NPS1 after"},
		"unknown":      {r, Boot{"two", up, found}, false, "with --power-was-off"},
		"one is gone":  {r, Boot{"two", up, map[string]string{"a": "SPX/NPS1"}}, true, "CPX/NPS4 before, SPX/NPS1 after; CPX/NPS4 before, missing after"},
		"no GPU found": {r, Boot{"two", up, map[string]string{}}, true, "CPX/NPS4 before, missing after"},
	}
	for name, tt := range tests {
		if got := Persistence(tt.r, tt.b, tt.power); !strings.Contains(got.Text, tt.want) || got.Verdict == Wrong {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNewTiming(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	run := runstate.Run{Result: runstate.Applied, Started: began, Finished: at(100), Steps: []runstate.Step{
		{Step: partition.Step{Kind: partition.RequestMemory, GPU: "b"}, Started: at(4), Finished: at(9)},
		{Step: partition.Step{Kind: partition.RequestMemory, GPU: "a"}, Started: at(2), Finished: at(5)},
		{Step: partition.Step{Kind: partition.ReloadDriver}, Started: at(10), Finished: at(50)},
		{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "a", From: "CPX", To: "QPX"}, Started: at(70), Finished: at(95)},
		{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "b", From: "CPX", To: "QPX"}},
	}}
	got := NewTiming("QPX/NPS4", run, map[string]time.Duration{"reload": 40 * time.Millisecond})
	phases := map[string]int64{"memory": 7, "reload": 40, "settle": 20}
	if diff := cmp.Diff(phases, got.Phases); diff != "" || got.Total() != "0.1 s" || got.Phase("settle") != "0.0" || got.Phase("stop") != "" {
		t.Errorf("phases (-want +got):\n%s\n%s in total", diff, got.Total())
	}
	if len(got.Steps) != 5 || got.Steps[3].Took != 25 || got.Steps[4].Took != -1 {
		t.Errorf("steps %+v", got.Steps)
	}
}

func TestClaims(t *testing.T) {
	claims, err := Claims()
	if err != nil || claims["MI300X"]["compute modes with NPS4"] != "QPX, CPX" {
		t.Errorf("%v, %v", claims["MI300X"], err)
	}
}

// GPUs that differ alike are listed together.
func TestCompare_Joined(t *testing.T) {
	want := map[string]string{"0000:05:00.0": "SPX/NPS1", "0000:26:00.0": "SPX/NPS1", "0000:46:00.0": "SPX/NPS1"}
	for text, got := range map[string]map[string]string{
		"each of 3 GPUs has DPX/NPS1 (want SPX/NPS1)":                                      {"0000:05:00.0": "DPX/NPS1", "0000:26:00.0": "DPX/NPS1", "0000:46:00.0": "DPX/NPS1"},
		"0000:05:00.0, 0000:46:00.0 has DPX/NPS1 (want SPX/NPS1); 0000:26:00.0 is missing": {"0000:05:00.0": "DPX/NPS1", "0000:46:00.0": "DPX/NPS1"},
		"3 GPUs: SPX/NPS1": want,
	} {
		if c := compare("", "modes", want, got); c.Text != text {
			t.Errorf("got %q, want %q", c.Text, text)
		}
	}
}
