package apply

import (
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// A switch of MIG that unloads a module of all GPUs is a change of the whole node.
func TestDifference_SingleGPUs(t *testing.T) {
	const a = "0000:41:00.0"
	device := gpu.Device{GPU: partition.GPU{Address: a}}
	held := device
	held.HeldBy = &gpu.HoldingModule{Name: "nvidia_drm"}
	for _, tt := range []struct {
		name   string
		device gpu.Device
		kind   partition.Kind
		want   bool
	}{
		{"no module", device, partition.SetMIGMode, true},
		{"a module", held, partition.SetMIGMode, false},
		{"a module, and no reset", held, partition.CreateInstances, true},
	} {
		d := Difference{Devices: []gpu.Device{tt.device}, Steps: partition.Steps{{Kind: tt.kind, GPU: a}}}
		if got := d.SingleGPUs(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
