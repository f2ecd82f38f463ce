package nvidia

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

func TestPartitions_MIGDevices(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"4g.40gb": 1, "1c.3g.40gb": 3}, 1); err != nil {
		t.Fatal(err)
	}
	devices := b.gpus()
	whole := devices[0].Parts
	if len(whole) != 1 || whole[0].RenderNode() != "/dev/nvidia0" || whole[0].ID != devices[0].UUID {
		t.Errorf("partitions with MIG off: %+v", whole)
	}
	parts := devices[1].Parts
	if len(parts) != 4 || devices[1].Partitions() != 4 {
		t.Fatalf("partitions: %+v", parts)
	}
	own, shared := make(map[string]bool), make(map[string]int)
	for i, p := range parts {
		own[p.Node] = true
		shared[p.CompanionNodes[0]]++
		if p.Index != []int{0, 4, 5, 6}[i] || !strings.HasPrefix(p.Node, "/dev/nvidia-caps/nvidia-cap") || p.CompanionNodes[1] != "/dev/nvidia1" || p.Bytes == 0 || !strings.HasPrefix(p.ID, "MIG-") {
			t.Errorf("%d is %+v", i, p)
		}
	}
	if len(own) != 4 || len(shared) != 2 {
		t.Errorf("own nodes %v, shared ones %v", own, shared)
	}
	if parts[0].Profile != "4g.40gb" && parts[3].Profile != "4g.40gb" {
		t.Errorf("the profiles are %s to %s", parts[0].Profile, parts[3].Profile)
	}
	for node := range own {
		if !strings.Contains(strings.Join(devices[1].ExclusiveNodes, " "), node) {
			t.Errorf("%s may be open while the GPU is changed", node)
		}
	}
	if gpu.Fingerprint(devices) == "" {
		t.Error("the fingerprint of the MIG instances is empty")
	}
}

// The drop-ins for NVIDIA exist only on hosts with such a GPU. systemd ignores those of units that
// are not installed.
func TestDropins(t *testing.T) {
	b := newBench(t, "mi300x-4+h100-4")
	units := b.node.Dropins()
	for unit, want := range map[string]string{
		"dcm-apply.service":          "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_MKNOD CAP_CHOWN\n",
		"dcm-make@.service":          "Before=nvidia-cdi-refresh.service\n",
		"dcm.service":                "DeviceAllow=char-195 rw\n",
		"dcm-reserve.service":        "DeviceAllow=char-195 rw\n",
		"dcm-agent.service":          "DeviceAllow=char-195 rw\n",
		"nvidia-cdi-refresh.service": "After=dcm-apply.service dcm-change.service\n",
	} {
		if !strings.Contains(units[unit], want) {
			t.Errorf("%s lacks %q:\n%s", unit, want, units[unit])
		}
	}
	for _, word := range []string{"After=nvidia-persistenced.service nvidia-fabricmanager.service", "Before=nvidia-gpu-reset.target", "Wants=nvidia-cdi-refresh.service"} {
		if !strings.Contains(units["dcm-apply.service"], word) {
			t.Errorf("dcm-apply.service lacks %s", word)
		}
	}
	amd := simtest.Start(t, "mi300x-8", sim.Options{})
	if got := gpu.Open(amd.Sys, []gpu.Vendor{b.parts.vendor()}).Dropins(); len(got) > 0 {
		t.Errorf("without a GPU: %v", got)
	}
}

func TestPartsOf_IndexStays(t *testing.T) {
	minor, minors := 0, make(map[string]int)
	of := func(starts ...int) []int {
		g := nvml.GPU{Minor: &minor, MIG: &nvml.MIGMode{Current: true}}
		for id, start := range starts {
			minors[fmt.Sprintf("gpu0/gi%d/access", id)], minors[fmt.Sprintf("gpu0/gi%d/ci0/access", id)] = 10*id, 10*id+1
			g.Instances = append(g.Instances, nvml.Instance{ID: id, Place: nvml.Placement{Start: start}, Compute: []nvml.ComputeInstance{{}}})
		}
		var out []int
		for _, p := range partsOf(g, minors) {
			out = append(out, p.Index)
		}
		return out
	}
	if before, after := of(0, 2, 4), of(4, 2); !slices.Equal(before, []int{0, 2, 4}) || !slices.Equal(after, []int{2, 4}) {
		t.Errorf("indices: got %v, and %v without the first instance, want 0, 2, 4 and 2, 4", before, after)
	}
}
