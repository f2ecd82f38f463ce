package amdgpu

import (
	"fmt"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

func TestReadDetails(t *testing.T) {
	for _, scattered := range []bool{false, true} {
		t.Run(fmt.Sprintf("scattered=%t", scattered), func(t *testing.T) { partitionsHaveTheirNodes(t, scattered) })
	}
}

func partitionsHaveTheirNodes(t *testing.T, scattered bool) {
	b := overSysfs(t, "mi300x-8-bmc", sim.Options{Scattered: scattered})
	if err := b.node.modes.switchAll(patient(t), b.switches(t, "CPX"), func(partition.Step, bool, error) {}); err != nil {
		t.Fatal(err)
	}
	devices := b.devices(t)
	if err := b.node.all.ReadDetails(patient(t), devices); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, d := range devices {
		if d.SkipReason != "" {
			continue
		}
		if len(d.Parts) != 8 {
			t.Fatalf("%s has %d partitions", d.Address, len(d.Parts))
		}
		for i, p := range d.Parts {
			name := fmt.Sprintf("%s-%d", d.Address, p.Index)
			if p.Index != i || p.RenderNode() != d.RenderNodes[i] || p.RenderNode() != b.sim.RenderNode(d.Address, i) {
				t.Errorf("%s is %+v, its GPU has %q", name, p, d.RenderNodes)
			}
			if p.CUs != 38 || p.Bytes != 24<<30 || !strings.HasPrefix(p.Card, "card") || p.ID == "" || p.ID == "0" {
				t.Errorf("%s is %+v", name, p)
			}
			for _, fact := range []string{"kfd " + p.ID, p.Card, fmt.Sprint(p.Minor)} {
				if other := seen[fact]; other != "" {
					t.Errorf("%s and %s both are %s", other, name, fact)
				}
				seen[fact] = name
			}
		}
	}
}

// If the device cgroup hides a GPU from this process, its partitions are listed, but their details
// cannot be read.
func TestReadDetails_PermissionDenied(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.partition(0, 0x500, 8, 128, "1")
	f.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "4711\n")
	f.write("sys/class/kfd/kfd/topology/nodes/0/mem_banks/0/properties", "heap_type 1\nsize_in_bytes many\n")
	n := whole(f.roots())
	devices, err := n.all.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = n.all.ReadDetails(t.Context(), devices)
	if p := devices[0].Parts[0]; err == nil || !strings.Contains(err.Error(), `the size "many"`) || p.ID != "4711" || p.Bytes != 0 {
		t.Errorf("%+v, error %v", p, err)
	}
}
