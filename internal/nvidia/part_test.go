package nvidia

import (
	"strings"
	"testing"

	"dcm/internal/gpu"
)

func TestMIGDevicesArePartitionsWithNodesOfTheirOwn(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"4g.40gb": 1, "1c.3g.40gb": 3}, 1); err != nil {
		t.Fatal(err)
	}
	devices := b.gpus()
	whole := devices[0].Parts
	if len(whole) != 1 || whole[0].RenderNode() != "/dev/nvidia0" || whole[0].ID != devices[0].UUID {
		t.Errorf("with MIG off there is %+v", whole)
	}
	parts := devices[1].Parts
	if len(parts) != 4 || devices[1].Partitions() != 4 {
		t.Fatalf("there are %+v", parts)
	}
	own, shared := make(map[string]bool), make(map[string]int)
	for i, p := range parts {
		own[p.Node] = true
		shared[p.Beside[0]]++
		if p.Index != i || !strings.HasPrefix(p.Node, "/dev/nvidia-caps/nvidia-cap") || p.Beside[1] != "/dev/nvidia1" || p.Bytes == 0 || !strings.HasPrefix(p.ID, "MIG-") {
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
		if !strings.Contains(strings.Join(devices[1].Closed, " "), node) {
			t.Errorf("%s may be open while the GPU is changed", node)
		}
	}
	if gpu.Seen(devices) == "" {
		t.Error("nothing is seen")
	}
}
