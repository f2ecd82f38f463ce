package leaseservice

import (
	"strings"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// The switch for a lease requires the check of each GPU alone. If the check is unknown, a switch that
// shows it is permitted.
func TestRefusal(t *testing.T) {
	device := func(address partition.Address) gpu.Device {
		return gpu.Device{GPU: partition.GPU{Address: address, Vendor: partition.AMD}, SharedNode: "/dev/kfd"}
	}
	one, two := device("0000:05:00.0"), device("0000:26:00.0")
	broken := two
	broken.SkipReason = "its driver does not answer"
	other := device("0000:41:00.0")
	other.Vendor = partition.NVIDIA
	attached := func(to ...partition.Address) []gpu.Holder {
		return []gpu.Holder{{PID: 7, Devices: []string{"/dev/kfd"}, Attached: to}}
	}
	for _, tt := range []struct {
		name    string
		check   gpu.BusyCheck
		all     []gpu.Device
		holders []gpu.Holder
		want    string // part of the reason; "" for none
	}{
		{"of the GPU", gpu.BusyCheckGPU, []gpu.Device{one, two}, nil, ""},
		{"of the node", gpu.BusyCheckNode, []gpu.Device{one, two}, nil, "older driver"},
		{"of the node, with one GPU", gpu.BusyCheckNode, []gpu.Device{one, broken, other}, nil, ""},
		{"unknown, nothing attached", gpu.BusyCheckUnknown, []gpu.Device{one, two}, nil, "not known yet"},
		{"unknown, attached to another", gpu.BusyCheckUnknown, []gpu.Device{one, two}, attached(two.Address), ""},
		{"unknown, attached to both", gpu.BusyCheckUnknown, []gpu.Device{one, two}, attached(one.Address, two.Address), "not known yet"},
		{"unknown, attached to an unknown one", gpu.BusyCheckUnknown, []gpu.Device{one, two}, attached(), "not known yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := refusal(tt.check, one, tt.all, tt.holders); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
