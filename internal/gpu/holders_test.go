package gpu

import (
	"fmt"
	"slices"
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
		var used []partition.Address
		for i := range 4 {
			if users[i] {
				used = append(used, address(i))
			}
		}
		if got := UsedBy(h, devices); !slices.Equal(got, used) {
			t.Fatalf("%+v uses %v, want %v", h, got, used)
		}
		unknown := h
		unknown.Attached = nil
		if len(Blockers(steps, devices, []Holder{h})) > len(Blockers(steps, devices, []Holder{unknown})) {
			t.Fatalf("%+v blocks %v, and does not if its GPUs are unknown", h, steps)
		}
	})
}
