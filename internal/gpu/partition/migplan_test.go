package partition

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// migs are GPUs with these geometries, of a driver that lists its profiles only with MIG on.
func migs(t testing.TB, now ...string) []GPU {
	board, _ := LookupBoard("H100-80GB")
	gpus := Typical(mi300x, len(now)) // for their addresses
	for i, text := range now {
		m := new(MIG)
		if err := m.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		gpus[i] = GPU{Address: gpus[i].Address, Vendor: NVIDIA, Device: board.Device, MIG: m}
		if !m.Off {
			gpus[i].Profiles = board.Profiles
		}
	}
	return gpus
}

func wanted(t testing.TB, gpus []GPU, texts ...string) Layout {
	l := Layout{Shapes: make(map[Address]Shape)}
	for i, g := range migs(t, texts...) {
		l.Shapes[gpus[i].Address] = g.Shape()
	}
	return l
}

func TestPlan_MIG(t *testing.T) {
	for _, tt := range []struct {
		name       string
		have, want []string
		steps      []string
	}{
		{"nothing to do", []string{"off", "3g.40gb@4", "empty"}, []string{"off", "3g.40gb", "empty"}, nil},
		{"on", []string{"off"}, []string{"3g.40gb 4g.40gb"}, []string{
			"turn MIG on for 0000:05:00.0", "create 4g.40gb@0, 3g.40gb@4 on 0000:05:00.0"}},
		{"off", []string{"4g.40gb@0"}, []string{"off"}, []string{
			"destroy 4g.40gb@0 of 0000:05:00.0", "turn MIG off for 0000:05:00.0"}},
		{"one of two", []string{"7g.80gb@0", "7g.80gb@0"}, []string{"7g.80gb", "1c.7g.80gb/2c.7g.80gb"}, []string{
			"destroy 7g.80gb@0 of 0000:26:00.0", "create 1c.7g.80gb/2c.7g.80gb@0 on 0000:26:00.0"}},
		{"every kind in one batch", []string{"7g.80gb@0", "off"}, []string{"empty", "empty"}, []string{
			"destroy 7g.80gb@0 of 0000:05:00.0", "turn MIG on for 0000:26:00.0"}},
		{"one stays", []string{"4g.40gb@0 3g.40gb@4"}, []string{"4g.40gb 1g.20gb 1g.10gb"}, []string{
			"destroy 3g.40gb@4 of 0000:05:00.0, keep 4g.40gb@0", "create 1g.20gb@4, 1g.10gb@6 on 0000:05:00.0, keep 4g.40gb@0"}},
		{"one goes", []string{"4g.40gb@0 3g.40gb@4"}, []string{"3g.40gb"}, []string{"destroy 4g.40gb@0 of 0000:05:00.0, keep 3g.40gb@4"}},
		{"one comes", []string{"3g.40gb@4"}, []string{"3g.40gb 4g.40gb"}, []string{"create 4g.40gb@0 on 0000:05:00.0, keep 3g.40gb@4"}},
		{"one stands where the large one belongs", []string{"1g.10gb@0 1g.10gb@4"}, []string{"4g.40gb 1g.10gb"}, []string{
			"destroy 1g.10gb@0 of 0000:05:00.0, keep 1g.10gb@4", "create 4g.40gb@0 on 0000:05:00.0, keep 1g.10gb@4"}},
		{"other compute instances", []string{"3g.40gb@0 1c.3g.40gb/2c.3g.40gb@4"}, []string{"3g.40gb 1c.3g.40gb/1c.3g.40gb/1c.3g.40gb"}, []string{
			"destroy 1c.3g.40gb/2c.3g.40gb@4 of 0000:05:00.0, keep 3g.40gb@0",
			"create 1c.3g.40gb/1c.3g.40gb/1c.3g.40gb@4 on 0000:05:00.0, keep 3g.40gb@0"}},
		{"equal compute instances, elsewhere", []string{"1c.3g.40gb/2c.3g.40gb@0 3g.40gb@4"}, []string{"3g.40gb 2c.3g.40gb/1c.3g.40gb"}, nil},
		{"the same with a placement", []string{"3g.40gb@0"}, []string{"3g.40gb@4 1g.10gb"}, []string{
			"destroy 3g.40gb@0 of 0000:05:00.0", "create 1g.10gb@0, 3g.40gb@4 on 0000:05:00.0"}},
		{"media engines", []string{"1g.10gb@0 1g.10gb+me@1"}, []string{"2g.20gb 1g.10gb+me"}, []string{
			"destroy 1g.10gb@0 of 0000:05:00.0, keep 1g.10gb+me@1", "create 2g.20gb@2 on 0000:05:00.0, keep 1g.10gb+me@1"}},
		{"back to its place", []string{"3g.40gb@0"}, []string{"3g.40gb@4"}, []string{
			"destroy 3g.40gb@0 of 0000:05:00.0", "create 3g.40gb@4 on 0000:05:00.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have := migs(t, tt.have...)
			steps, err := Plan(wanted(t, have, tt.want...), have)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.steps, lines(steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			after := Forecast(have, steps)
			for i := range after {
				if after[i].MIG.Off {
					continue
				}
				after[i].Profiles = migs(t, "empty")[0].Profiles
			}
			if left, err := Plan(wanted(t, have, tt.want...), after); len(left) > 0 || err != nil {
				t.Errorf("after the steps there is still to do: %v (%v)", lines(left), err)
			}
			undo, err := Plan(CurrentLayout(have), after)
			if back := CurrentLayout(Forecast(after, undo)); err != nil || !cmp.Equal(back.Shapes, CurrentLayout(have).Shapes) {
				t.Errorf("the way back ends at %v (%v)", back.Shapes, err)
			}
		})
	}
}

func TestPlan_UnsupportedGeometry(t *testing.T) {
	barred, foreign, silent := migs(t, "off"), migs(t, "off"), migs(t, "empty")
	barred[0].GeometryBlocked = "it is passed through to this virtual machine, which can neither reset it nor switch MIG"
	foreign[0].Device = 0xffff
	silent[0].Profiles = nil
	for _, tt := range []struct {
		have []GPU
		want string
		says string
	}{
		{migs(t, "off", "off"), "7g.80gb 1g.10gb", "2 GPUs (H100-80GB) cannot be set to 7g.80gb, 1g.10gb: 1g.10gb does not fit with 7g.80gb (no free slot)"},
		{migs(t, "off"), "1g.5gb", "(here that is 1g.10gb)"},
		{barred, "1g.10gb", "cannot be set to 1g.10gb: it is passed through"},
		{silent, "1g.10gb", "the driver does not list"},
		{foreign, "1g.10gb", ""},
		{unreset(migs(t, "off")), "1g.10gb", "cannot be set to 1g.10gb: the kernel offers no reset"},
		{unreset(migs(t, "1g.10gb@0")), "off", "the kernel offers no reset"},
		{unreset(pending(migs(t, "empty"))), "1g.10gb", "the kernel offers no reset"},
	} {
		wants := slices.Repeat([]string{tt.want}, len(tt.have))
		steps, err := Plan(wanted(t, tt.have, wants...), tt.have)
		if tt.says == "" && (err != nil || len(steps) != 2) || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, %v", tt.want, lines(steps), err)
		}
	}
}

// unreset has the GPUs not be reset.
func unreset(gpus []GPU) []GPU {
	for i := range gpus {
		gpus[i].ModeBlocked = "the kernel offers no reset"
	}
	return gpus
}

func pending(gpus []GPU) []GPU {
	for i := range gpus {
		gpus[i].MIGPending = true
	}
	return gpus
}

// Only turning MIG on or off takes a reset.
func TestPlan_InstancesNeedNoReset(t *testing.T) {
	for _, tt := range []struct {
		name  string
		have  []GPU
		want  string
		steps []string
	}{
		{"made", unreset(migs(t, "empty")), "7g.80gb", []string{"create 7g.80gb@0 on 0000:05:00.0"}},
		{"others made", unreset(migs(t, "7g.80gb@0")), "3g.40gb", []string{
			"destroy 7g.80gb@0 of 0000:05:00.0", "create 3g.40gb@0 on 0000:05:00.0"}},
		{"destroyed", unreset(migs(t, "7g.80gb@0")), "empty", []string{"destroy 7g.80gb@0 of 0000:05:00.0"}},
		{"left, with a switch pending", unreset(pending(migs(t, "7g.80gb@0"))), "7g.80gb", nil},
	} {
		steps, err := Plan(wanted(t, tt.have, tt.want), tt.have)
		if diff := cmp.Diff(tt.steps, lines(steps)); diff != "" || err != nil {
			t.Errorf("%s: %v, steps (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

func TestPlan_PendingSwitchCancelled(t *testing.T) {
	have := migs(t, "off")
	have[0].MIGPending = true
	steps, err := Plan(wanted(t, have, "off"), have)
	if want := []string{"turn MIG off for 0000:05:00.0"}; err != nil || !cmp.Equal(lines(steps), want) {
		t.Errorf("steps %v (%v)", lines(steps), err)
	}
}

func TestPlan_PendingSwitchOfSkippedGPU(t *testing.T) {
	have := migs(t, "off", "off", "7g.80gb@0")
	have[0].MIGPending, have[1].MIGPending, have[1].GeometryBlocked = true, true, "it is a vGPU guest"
	off := Profile{Groups: []Group{{MIG: &MIG{Off: true}, GPUs: []Selector{{Index: 1}}}}}
	l, err := off.Layout(have)
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := Plan(l, have); len(steps) > 0 || err != nil {
		t.Errorf("a GPU that is left, and one that may not be changed: %v (%v)", lines(steps), err)
	}
	before := CurrentLayout(have)
	have[2].MIG = &MIG{}
	if steps, err := Plan(before, have); err != nil || !cmp.Equal(lines(steps), []string{"create 7g.80gb@0 on 0000:46:00.0"}) {
		t.Errorf("the way back: %v (%v)", lines(steps), err)
	}
}

func TestMIGText(t *testing.T) {
	for text, want := range map[string]Shape{
		`{"compute":"CPX","memory":"NPS4"}`: {Mode: Mode{CPX, NPS4}},
		`{}`:                                {},
		`{"mig":"off"}`:                     {MIG: &MIG{Off: true}},
		`{"mig":"empty"}`:                   {MIG: &MIG{}},
		`{"mig":"4g.40gb@0 1c.1g.10gb+me"}`: {MIG: &MIG{Instances: []Instance{{Profile: "4g.40gb"}, {Profile: "1g.10gb+me", Start: unplaced, Compute: []string{"1c.1g.10gb+me"}}}}},
	} {
		var got Shape
		if err := json.Unmarshal([]byte(text), &got); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s is read as %v (%v)", text, got, err)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != text {
			t.Errorf("%s is written as %s (%v)", text, again, err)
		}
	}
	for _, text := range []string{"", "on", "3g.40gb@", "3g.40gb@-1", "3g.40gb@99", "1c.3g.40gb/1c.2g.20gb", "3g.40gb  1g.10gb", "nonsense"} {
		if err := new(MIG).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func FuzzMIGText(f *testing.F) {
	for _, text := range []string{"off", "empty", "3g.40gb@4 1g.10gb@0", "1c.3g.40gb/2c.3g.40gb@4", "1g.24gb-me 2g.48gb+me.all@0", "@", "1g.10gb@64"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var m, again MIG
		if m.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, err := m.MarshalText()
		if err != nil || again.UnmarshalText(written) != nil || !cmp.Equal(m, again) {
			t.Errorf("%q is written as %q (%v)", text, written, err)
		}
		if !m.Same(again) || m.key() != again.key() {
			t.Errorf("%q is not the same as itself", text)
		}
		if n, err := NewMIG(m.Counts()); err == nil && !m.Off && n.Partitions() != m.Partitions() {
			t.Errorf("%q made of its counts has %d partitions, not %d", text, n.Partitions(), m.Partitions())
		}
	})
}
