package gpu

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"dcm/internal/gpu/partition"
)

// fourGPUs returns four AMD GPUs with two partitions each, and one GPU of another vendor.
func fourGPUs() []Device {
	var out []Device
	for i := range 4 {
		d := Device{GPU: partition.GPU{Address: address(i), Vendor: partition.AMD}, SharedNode: "/dev/kfd", ExclusiveNodes: []string{"/dev/kfd"}}
		for p := range 2 {
			d.RenderNodes = append(d.RenderNodes, RenderNode(128+8*i+p))
		}
		d.ExclusiveNodes = append(d.ExclusiveNodes, d.RenderNodes...)
		out = append(out, d)
	}
	return append(out, Device{GPU: partition.GPU{Address: address(9), Vendor: other}, ExclusiveNodes: []string{"/dev/x9"}})
}

func address(i int) partition.Address { return partition.Address(fmt.Sprintf("0000:%02x:00.0", i)) }

func TestBlockers_PerGPU(t *testing.T) {
	amd := []partition.Vendor{partition.AMD}
	compute := partition.Step{Kind: partition.SwitchCompute, GPU: address(3), To: "CPX"}
	reload := partition.Step{Kind: partition.ReloadDriver}
	for _, test := range []struct {
		name            string
		holder          Holder
		compute, reload bool
	}{
		{"attached to the GPU", Holder{Devices: []string{"/dev/kfd"}, Attached: []partition.Address{address(3)}, Vendors: amd}, true, true},
		{"attached to another GPU", Holder{Devices: []string{"/dev/kfd"}, Attached: []partition.Address{address(2)}, Vendors: amd}, false, true},
		{"attached to several", Holder{Devices: []string{"/dev/kfd"}, Attached: []partition.Address{address(2), address(3)}, Vendors: amd}, true, true},
		{"attached to unknown GPUs", Holder{Devices: []string{"/dev/kfd"}, Vendors: amd}, true, true},
		{"a partition of the GPU is open", Holder{Devices: []string{"/dev/dri/renderD153"}, Vendors: amd}, true, true},
		{"a partition of the GPU is open, attached to another", Holder{Devices: []string{"/dev/kfd", "/dev/dri/renderD153"}, Attached: []partition.Address{address(0)}, Vendors: amd}, true, true},
		{"a partition of another GPU is open", Holder{Devices: []string{"/dev/dri/renderD144"}, Vendors: amd}, false, true},
		{"a card is open", Holder{Devices: []string{"/dev/dri/card3"}, Vendors: amd}, false, true},
		{"another vendor's GPU is open", Holder{Devices: []string{"/dev/x9"}, Vendors: []partition.Vendor{other}}, false, false},
		{"a lease of the GPU", Holder{LeaseOwner: "ada", Leased: []string{"/dev/kfd", "/dev/dri/renderD152"}}, true, true},
		{"a lease of another GPU", Holder{LeaseOwner: "ada", Leased: []string{"/dev/kfd", "/dev/dri/renderD128"}}, false, true},
		{"a lease of unknown partitions", Holder{LeaseOwner: "ada"}, true, true},
		{"a lease of another GPU, attached to it", Holder{Devices: []string{"/dev/kfd"}, Attached: []partition.Address{address(0)}, Vendors: amd, LeaseOwner: "ada", Leased: []string{"/dev/dri/renderD128"}}, false, true},
	} {
		for _, step := range []struct {
			partition.Step
			want bool
		}{{compute, test.compute}, {reload, test.reload}} {
			if got := len(Blockers(partition.Steps{step.Step}, fourGPUs(), []Holder{test.holder})) > 0; got != step.want {
				t.Errorf("%s: blocks %q: %t, want %t", test.name, step.Step, got, step.want)
			}
		}
	}
}

func TestBlockers_InvisibleGPU(t *testing.T) {
	steps := partition.Steps{{Kind: partition.SwitchCompute, GPU: address(7)}}
	holders := []Holder{{PID: 1, LeaseOwner: "ada", Leased: []string{"/dev/dri/renderD128"}}, {PID: 2, Devices: []string{"/dev/kfd"}}}
	if got := Blockers(steps, fourGPUs(), holders); len(got) != 1 || got[0].PID != 1 {
		t.Errorf("blockers %+v, want the lease", got)
	}
}

// TestBlockers_EachGPUAlone compares Blockers with its definition: a plan without a reload is
// blocked by the users of its GPUs, and more knowledge of a holder removes blockers only.
func TestBlockers_EachGPUAlone(t *testing.T) {
	devices := fourGPUs()
	rapid.Check(t, func(t *rapid.T) {
		gpus := func(name string) []int {
			return rapid.SliceOfDistinct(rapid.IntRange(0, 3), rapid.ID[int]).Draw(t, name)
		}
		h := Holder{Vendors: []partition.Vendor{partition.AMD}}
		users := make(map[int]bool)
		for _, i := range gpus("render nodes") {
			h.Devices = append(h.Devices, RenderNode(128+8*i+rapid.IntRange(0, 1).Draw(t, "partition")))
			users[i] = true
		}
		if rapid.Bool().Draw(t, "kfd") {
			h.Devices = append(h.Devices, "/dev/kfd")
			for _, i := range gpus("attached") {
				h.Attached = append(h.Attached, address(i))
				users[i] = true
			}
			if len(h.Attached) == 0 {
				users = map[int]bool{0: true, 1: true, 2: true, 3: true}
			}
		}
		var steps partition.Steps
		want := false
		for _, i := range gpus("changed") {
			steps = append(steps, partition.Step{Kind: partition.SwitchCompute, GPU: address(i), To: "CPX"})
			want = want || users[i]
		}
		if got := len(Blockers(steps, devices, []Holder{h})) > 0; got != want {
			t.Fatalf("%+v blocks %v: %t, want %t", h, steps, got, want)
		}
		for i, d := range devices {
			if got := h.Uses(d); got != users[i] {
				t.Fatalf("%+v uses GPU %d: %t, want %t", h, i, got, users[i])
			}
		}
		unknown := h
		unknown.Attached = nil
		if len(Blockers(steps, devices, []Holder{h})) > len(Blockers(steps, devices, []Holder{unknown})) {
			t.Fatalf("%+v blocks %v, and does not if its GPUs are unknown", h, steps)
		}
	})
}

// A process that uses only instances that stay does not block a change of the others.
func TestBlockers_KeptInstances(t *testing.T) {
	const a = "0000:05:00.0"
	node := func(minor string) string { return "/dev/nvidia-caps/nvidia-cap" + minor }
	part := func(start int, gi, ci string) Part {
		return Part{Start: start, Node: node(ci), CompanionNodes: []string{node(gi), "/dev/nvidia0", "/dev/nvidiactl"}}
	}
	one := func(text string) *partition.MIG {
		m := new(partition.MIG)
		if err := m.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return m
	}
	device := Device{
		GPU:            partition.GPU{Address: a, Vendor: partition.NVIDIA, MIG: one("2g.20gb@0 2g.20gb@2 3g.40gb@4")},
		Parts:          []Part{part(0, "3", "4"), part(2, "12", "13"), part(4, "21", "22")},
		ExclusiveNodes: []string{"/dev/nvidia0", node("3"), node("4"), node("12"), node("13"), node("21"), node("22"), "/dev/dri/card0"},
	}
	destroy := partition.Steps{{Kind: partition.DestroyInstances, GPU: a, MIG: one("3g.40gb@4"), Kept: one("2g.20gb@0 2g.20gb@2")}}
	create := partition.Steps{{Kind: partition.CreateInstances, GPU: a, MIG: one("1g.10gb@4")}}
	mode := append(destroy, partition.Step{Kind: partition.SetMIGMode, GPU: a, To: "MIG off"})
	every := []string{"/dev/nvidiactl", "/dev/nvidia0"}
	for _, tt := range []struct {
		name  string
		steps partition.Steps
		open  []string
		want  bool
	}{
		{"a kept instance", destroy, append(every, node("3"), node("4")), false},
		{"two kept instances", destroy, append(every, node("3"), node("4"), node("12"), node("13")), false},
		{"a removed instance", destroy, append(every, node("21"), node("22")), true},
		{"a kept and a removed instance", destroy, append(every, node("3"), node("4"), node("21"), node("22")), true},
		{"the GPU instance of another one", destroy, append(every, node("3"), node("4"), node("12")), true},
		{"the GPU alone", destroy, every, true},
		{"a display", destroy, append(every, node("3"), node("4"), "/dev/dri/card0"), true},
		{"nothing of this GPU", destroy, []string{"/dev/nvidiactl", "/dev/nvidia1"}, false},
		{"the GPU alone, and nothing is removed", create, every, false},
		{"any instance, and the mode changes", mode, append(every, node("3"), node("4")), true},
	} {
		got := Blockers(tt.steps, []Device{device}, []Holder{{PID: 7, Devices: tt.open}})
		if (len(got) == 1) != tt.want {
			t.Errorf("%s: blockers %+v, want %t", tt.name, got, tt.want)
		}
	}
	lease := func(open ...string) bool {
		return len(Blockers(destroy, []Device{device}, []Holder{{LeaseOwner: "ada", Leased: open}})) == 1
	}
	if lease(append(every, node("3"), node("4"))...) || !lease(append(every, node("21"), node("22"))...) || !lease() {
		t.Error("leases: want those of a removed instance and of unknown partitions to block, and that of a kept one not to")
	}
	device.Parts = nil // as in the view of a process that the device cgroup hides them from
	if got := Blockers(destroy, []Device{device}, []Holder{{PID: 7, Devices: append(every, node("3"), node("4"))}}); len(got) != 1 {
		t.Errorf("without known partitions: blockers %+v, want one", got)
	}
}
