package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allocating returns n GPUs of a driver with the memory allocation mode.
func allocating(n int, m Memory, a Allocation) []GPU {
	gpus := node(mi300x, n, m)
	for i := range gpus {
		gpus[i].Allocation = a
	}
	return gpus
}

func TestPlan_Allocation(t *testing.T) {
	all := whole(CPX, NPS1)
	all.Allocation = All
	only := Profile{Name: "test", Settings: Settings{Allocation: All}}
	capping := whole(CPX, NPS1)
	capping.Allocation = Capping
	mixed := Profile{Name: "test", Settings: Settings{Allocation: Capping}, Groups: []Group{{Compute: SPX, Count: 1, Settings: Settings{Allocation: All}}, {Compute: SPX, Rest: true}}}
	skipped := whole(CPX, NPS1)
	skipped.Skip = []Selector{{Index: 0}}
	for _, test := range []struct {
		name    string
		profile Profile
		have    []GPU
		want    []string
	}{
		{"set after the switch", all, allocating(1, NPS1, Capping), []string{
			"switch 0000:05:00.0 from SPX to CPX",
			"set the memory allocation of 0000:05:00.0 from capping to all",
		}},
		{"alone", only, allocating(1, NPS1, Capping), []string{"set the memory allocation of 0000:05:00.0 from capping to all"}},
		{"already set", only, allocating(1, NPS1, All), nil},
		{"no key keeps the mode found", whole(CPX, NPS1), allocating(2, NPS1, All), []string{
			"switch 0000:05:00.0 from SPX to CPX",
			"switch 0000:26:00.0 from SPX to CPX",
			"set the memory allocation of 0000:05:00.0 to all again, since the driver resets it",
			"set the memory allocation of 0000:26:00.0 to all again, since the driver resets it",
		}},
		{"a reload resets it", whole(CPX, NPS4), allocating(1, NPS1, All), []string{
			"request NPS4 for 0000:05:00.0 (now NPS1)",
			"reload the driver",
			"set the memory allocation of 0000:05:00.0 to all again, since the driver resets it",
		}},
		{"capping needs no step after a switch", capping, allocating(1, NPS1, All), []string{"switch 0000:05:00.0 from SPX to CPX"}},
		{"each group has its own", mixed, allocating(2, NPS1, Capping), []string{"set the memory allocation of 0000:05:00.0 from capping to all"}},
		{"a skipped GPU keeps its own", skipped, allocating(2, NPS1, All), []string{
			"switch 0000:26:00.0 from SPX to CPX",
			"set the memory allocation of 0000:26:00.0 to all again, since the driver resets it",
		}},
		{"an older driver without the key", whole(CPX, NPS1), node(mi300x, 1, NPS1), []string{"switch 0000:05:00.0 from SPX to CPX"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.have {
				if len(test.have) == 1 {
					test.have[i].Hive = 0
				}
			}
			layout, err := test.profile.Layout(test.have)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Plan(layout, test.have)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if rest, err := Plan(layout, Forecast(test.have, got)); err != nil || len(rest) > 0 {
				t.Errorf("after the steps: %v, %v; want none", lines(rest), err)
			}
		})
	}
}

func TestPlan_AllocationUnsupported(t *testing.T) {
	for _, a := range Allocations() {
		p := whole(SPX, NPS1)
		p.Allocation = a
		have := node(mi300x, 2, NPS1)
		layout, err := p.Layout(have)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Plan(layout, have)
		want := "2 GPUs (MI300X) do not support memory-allocation = \"" + string(a) + "\": the driver shows no compute_partition_mem_alloc_mode, which Linux 7.1 and later have"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", a, err, want)
		}
	}
}

// A virtual function has the file, and its modes stay as they are.
func TestPlan_AllocationOfVirtualFunction(t *testing.T) {
	have := allocating(1, NPS1, Capping)
	have[0].ReadOnly = true
	layout, err := Profile{Name: "test", Settings: Settings{Allocation: All}}.Layout(have)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Plan(layout, have); err != nil || len(got) != 1 {
		t.Errorf("%v, %v; want one step", lines(got), err)
	}
}

func TestChanges_AllocationKeepsUsers(t *testing.T) {
	have := allocating(2, NPS1, Capping)
	steps := Steps{
		{Kind: SetAllocation, GPU: have[0].Address, To: string(All)},
		{Kind: SwitchCompute, GPU: have[1].Address, To: string(CPX)},
		{Kind: SetAllocation, GPU: have[1].Address, To: string(All)},
	}
	want := []Change{{GPU: have[0].Address, KeepsUsers: true}, {GPU: have[1].Address, Whole: true}}
	if diff := cmp.Diff(want, steps.Changes(have)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if steps.KeepsUsers() || !steps[:1].KeepsUsers() {
		t.Error("only the first step keeps the users")
	}
}

func TestDescribe_Allocation(t *testing.T) {
	have := allocating(2, NPS1, Capping)
	have[1].Allocation = All
	p, err := Describe("now", have)
	want := Profile{Name: "now", Memory: NPS1, Groups: []Group{{Compute: SPX, Settings: Settings{Allocation: Capping}, Count: 1}, {Compute: SPX, Settings: Settings{Allocation: All}, Count: 1}}}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestParseAllocation(t *testing.T) {
	if a, err := ParseAllocation("all"); a != All || err != nil {
		t.Errorf("%q, %v", a, err)
	}
	if _, err := ParseAllocation("EVEN"); err == nil || err.Error() != `unknown memory allocation mode "EVEN": accepted are capping, all` {
		t.Errorf("got %v", err)
	}
}

// isolated returns n GPUs of a driver with both settings.
func isolated(n int, i Isolation) []GPU {
	gpus := allocating(n, NPS1, Capping)
	for at := range gpus {
		gpus[at].Isolation, gpus[at].Hive = i, 0
	}
	return gpus
}

func TestPlan_Isolation(t *testing.T) {
	with := func(compute Compute, s Settings) Profile {
		p := whole(compute, NPS1)
		p.Settings = s
		return p
	}
	on, off := Settings{Isolation: Isolated}, Settings{Isolation: NotIsolated}
	const cpx = "switch 0000:05:00.0 from SPX to CPX"
	for _, test := range []struct {
		name    string
		profile Profile
		have    []GPU
		want    []string
	}{
		{"set after the switch", with(CPX, on), isolated(1, NotIsolated), []string{cpx, "set the isolation of 0000:05:00.0 from off to on"}},
		{"alone", Profile{Name: "test", Settings: on}, isolated(1, NotIsolated), []string{"set the isolation of 0000:05:00.0 from off to on"}},
		{"removed", with(SPX, off), isolated(1, Isolated), []string{"set the isolation of 0000:05:00.0 from on to off"}},
		{"already set", with(SPX, on), isolated(1, Isolated), nil},
		{"one partition of two differs", with(SPX, on), isolated(1, "0 1"), []string{"set the isolation of 0000:05:00.0 from 0 1 to on"}},
		{"another mode of isolation", with(SPX, on), isolated(1, "2"), []string{"set the isolation of 0000:05:00.0 from 2 to on"}},
		{"no key keeps it for new partitions", whole(CPX, NPS1), isolated(1, Isolated), []string{cpx, "set the isolation of 0000:05:00.0 to on again, since the driver resets it"}},
		{"no key leaves single partitions alone", whole(CPX, NPS1), isolated(1, "2"), []string{cpx}},
		{"with the memory allocation", with(SPX, Settings{All, Isolated}), isolated(1, NotIsolated), []string{
			"set the memory allocation of 0000:05:00.0 from capping to all",
			"set the isolation of 0000:05:00.0 from off to on",
		}},
		{"a batch for each setting", with(SPX, Settings{All, Isolated}), isolated(2, NotIsolated), []string{
			"set the memory allocation of 0000:05:00.0 from capping to all",
			"set the memory allocation of 0000:26:00.0 from capping to all",
			"set the isolation of 0000:05:00.0 from off to on",
			"set the isolation of 0000:26:00.0 from off to on",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			layout, err := test.profile.Layout(test.have)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Plan(layout, test.have)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if rest, err := Plan(layout, Forecast(test.have, got)); err != nil || len(rest) > 0 {
				t.Errorf("after the steps: %v, %v; want none", lines(rest), err)
			}
		})
	}
}

func TestPlan_IsolationUnsupported(t *testing.T) {
	for value, i := range map[string]Isolation{"true": Isolated, "false": NotIsolated} {
		p := whole(SPX, NPS1)
		p.Isolation = i
		have := node(mi300x, 2, NPS1)
		layout, err := p.Layout(have)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Plan(layout, have)
		want := "2 GPUs (MI300X) do not support isolation = " + value + ": the driver shows no enforce_isolation, which Linux 6.12 and later have for this GPU or for all"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", i, err, want)
		}
	}
}

func TestParseIsolation(t *testing.T) {
	for text, want := range map[string]Isolation{
		"1": Isolated, "1 1 1 1": Isolated, "0": NotIsolated, "0 0\n": NotIsolated, "0 1": "0 1", "2": "2", "3  3": "3 3", "": "", "on": "", "1 -1": "",
	} {
		got, err := ParseIsolation(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for i, want := range map[Isolation]string{Isolated: "1 1 1", NotIsolated: "0 0 0", "2 0 1": "2 0 1"} {
		if got := i.Numbers(3); got != want {
			t.Errorf("%s: %q, want %q", i, got, want)
		}
	}
}
