package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	mi300a = 0x74a0
	mi300x = 0x74a1
	mi355x = 0x75a3
)

// node returns n GPUs of a model in one hive, as a freshly loaded driver shows them.
func node(device uint16, n int, m Memory) []GPU {
	gpus := Typical(device, n)
	for i := range gpus {
		applyReload(&gpus[i], m)
	}
	return gpus
}

func whole(c Compute, m Memory) Profile { return Profile{Name: "test", Compute: c, Memory: m} }

func lines(s Steps) []string {
	var out []string
	for _, st := range s {
		out = append(out, st.String())
	}
	return out
}

func TestPlan_Order(t *testing.T) {
	two := node(mi300x, 2, NPS1)
	apart := node(mi300x, 2, NPS1)
	apart[0].Hive, apart[1].Hive = 0, 0
	cpx := node(mi300x, 2, NPS1)
	cpx[1].Compute = CPX
	for _, test := range []struct {
		name    string
		profile Profile
		have    []GPU
		want    []string
	}{
		{"nothing to do", whole(SPX, NPS1), two, nil},
		{"a compute switch alone needs no reload", whole(CPX, NPS1), two, []string{
			"switch 0000:05:00.0 from SPX to CPX",
			"switch 0000:26:00.0 from SPX to CPX",
		}},
		{"a GPU already right gets no step", whole(CPX, NPS1), cpx, []string{
			"switch 0000:05:00.0 from SPX to CPX",
		}},
		{"one request covers a hive, and the driver's own choice after a load is used", whole(CPX, NPS4), two, []string{
			"request NPS4 for 2 GPUs of one hive, through 0000:05:00.0 (now NPS1)",
			"reload the driver",
		}},
		{"GPUs in no hive are asked one by one", whole(CPX, NPS4), apart, []string{
			"request NPS4 for 0000:05:00.0 (now NPS1)",
			"request NPS4 for 0000:26:00.0 (now NPS1)",
			"reload the driver",
		}},
		{"a mode that fits only the new memory mode is judged against the new one", whole(QPX, NPS4), two, []string{
			"request NPS4 for 2 GPUs of one hive, through 0000:05:00.0 (now NPS1)",
			"reload the driver",
			"switch 0000:05:00.0 from CPX to QPX",
			"switch 0000:26:00.0 from CPX to QPX",
		}},
		{"no memory mode named leaves it", whole(CPX, ""), node(mi300x, 1, NPS4), nil},
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
		})
	}
}

func TestPlan_Unsupported(t *testing.T) {
	listed := node(mi300x, 1, NPS1)
	listed[0].AvailableCompute = []Compute{SPX, CPX} // fewer modes than in the model's table
	virtual := node(mi300x, 1, NPS1)
	virtual[0].ReadOnly = true
	skipped := whole(CPX, NPS4)
	skipped.Skip = []Selector{{Index: 1}}
	for _, test := range []struct {
		name    string
		profile Profile
		have    []GPU
		want    string
	}{
		{"a mode that the model does not have", whole(TPX, NPS1), node(mi300x, 1, NPS1),
			"0000:05:00.0 (MI300X) does not support TPX/NPS1: NPS1 accepts SPX, DPX, QPX, CPX"},
		{"a mode that does not go with the memory mode", whole(DPX, NPS4), node(mi300x, 1, NPS1),
			"0000:05:00.0 (MI300X) does not support DPX/NPS4: NPS4 accepts QPX, CPX"},
		{"the device's own list goes before the table", whole(QPX, NPS1), listed,
			"0000:05:00.0 (MI300X) does not support QPX/NPS1: NPS1 accepts SPX, CPX"},
		{"a memory mode that the device does not list", whole(CPX, NPS2), node(mi300a, 1, NPS1),
			"0000:05:00.0 (MI300A) does not support NPS2: accepted are NPS1"},
		{"NPS8, which some devices list and no compute mode accepts", whole(CPX, NPS8), node(mi300x, 1, NPS1),
			"0000:05:00.0 (MI300X) does not support CPX/NPS8: NPS8 accepts no compute mode"},
		{"a virtual function", whole(CPX, NPS1), virtual,
			"0000:05:00.0 (MI300X) cannot be set to CPX/NPS1: it is a virtual function, whose modes only the host can set"},
		{"a skipped GPU in the hive of a memory change", skipped, node(mi300x, 2, NPS1),
			"0000:26:00.0: cannot be skipped: its XGMI hive gets one memory mode, and 0000:05:00.0 in it gets NPS4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			layout, err := test.profile.Layout(test.have)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := Plan(layout, test.have)
			if err == nil || steps != nil {
				t.Fatalf("got steps %v and error %v, want only an error", steps, err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_NamesEveryUnsupportedGPU(t *testing.T) {
	have := node(mi300x, 8, NPS1)
	layout, err := whole(TPX, NPS1).Layout(have)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Plan(layout, have)
	want := "8 GPUs (MI300X) do not support TPX/NPS1: NPS1 accepts SPX, DPX, QPX, CPX"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	layout.Shapes[have[2].Address] = have[2].Shape()
	_, err = Plan(layout, have)
	want = "7 GPUs (MI300X at 0000:05:00.0, 0000:26:00.0, 0000:65:00.0, …) do not support TPX/NPS1: NPS1 accepts SPX, DPX, QPX, CPX"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestPlan_ReloadRestoresSkippedGPU(t *testing.T) {
	have := node(mi300x, 2, NPS1)
	have[1].Hive, have[1].Compute = 99, DPX
	p := whole(CPX, NPS4)
	p.Skip = []Selector{{Address: have[1].Address}}
	layout, err := p.Layout(have)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := Plan(layout, have)
	if err != nil {
		t.Fatal(err)
	}
	if got := Forecast(have, steps)[1].Mode(); got != (Mode{DPX, NPS1}) {
		t.Errorf("the skipped GPU ends at %s, want DPX/NPS1; steps %q", got, lines(steps))
	}
}

// anyNode draws GPUs of one model in any valid modes, in up to two hives.
func anyNode(t *rapid.T) []GPU {
	device := rapid.SampledFrom([]uint16{mi300a, mi300x, mi355x}).Draw(t, "device")
	gpus := Typical(device, rapid.IntRange(1, 8).Draw(t, "gpus"))
	split := rapid.IntRange(0, len(gpus)).Draw(t, "split")
	model, _ := LookupModel(AMD, device)
	for _, hive := range [][]GPU{gpus[:split], gpus[split:]} {
		m := NPS1
		if len(hive) > 0 && hive[0].AvailableMemory != nil {
			m = rapid.SampledFrom(hive[0].AvailableMemory).Draw(t, "memory")
		}
		modes := model.computeFor(m)
		if len(modes) == 0 { // some models list NPS8, but accept it with no compute mode
			m, modes = NPS1, model.computeFor(NPS1)
		}
		for i := range hive {
			hive[i].Hive = uint64(split + 1 + len(hive))
			hive[i].Memory, hive[i].AvailableCompute = m, modes
			hive[i].Compute = rapid.SampledFrom(modes).Draw(t, "compute")
		}
	}
	return gpus
}

// anyProfile draws a mixed profile that covers the node.
func anyProfile(t *rapid.T, gpus []GPU) Profile {
	p := Profile{Name: "drawn"}
	p.Memory = rapid.SampledFrom(append(MemoryModes(), "")).Draw(t, "want memory")
	first := rapid.IntRange(0, len(gpus)).Draw(t, "first")
	mode := rapid.SampledFrom(ComputeModes())
	if first > 0 {
		p.Groups = append(p.Groups, Group{Compute: mode.Draw(t, "a"), Count: first})
	}
	p.Groups = append(p.Groups, Group{Compute: mode.Draw(t, "b"), Rest: true})
	return p
}

func TestPlan_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := anyNode(t)
		layout, err := anyProfile(t, have).Layout(have)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := Plan(layout, have)
		if err != nil {
			return // refused as a whole: nothing would be touched
		}
		after := Forecast(have, steps)
		again, err := Plan(layout, after)
		if err != nil || len(again) != 0 {
			t.Fatalf("planning the result of %q gives %q, %v", lines(steps), lines(again), err)
		}
		rank := map[Kind]int{RequestMemory: 0, ReloadDriver: 1, SwitchCompute: 2}
		now := CurrentLayout(have)
		for i, s := range steps {
			if i > 0 && rank[s.Kind] < rank[steps[i-1].Kind] {
				t.Fatalf("%q is out of order in %q", s, lines(steps))
			}
			if s.Kind == SwitchCompute && !steps.Reloads() && layout.Shapes[s.GPU] == now.Shapes[s.GPU] {
				t.Fatalf("%q is for a GPU that is already right", s)
			}
			if s.Kind != ReloadDriver && s.From == s.To {
				t.Fatalf("%q changes nothing", s)
			}
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	have := node(mi300x, 8, NPS1)
	for b.Loop() {
		want, err := whole(CPX, NPS1).Layout(have)
		if err != nil {
			b.Fatal(err)
		}
		if steps, err := Plan(want, have); err != nil || len(steps) != 8 {
			b.Fatal(steps, err)
		}
	}
}
