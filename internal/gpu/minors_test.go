package gpu

import (
	"fmt"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
)

// typicalNode returns n MI300X in that mode.
func typicalNode(n int, mode partition.Compute) []partition.GPU {
	gpus := partition.Typical(0x74a1, n)
	for i := range gpus {
		gpus[i].Compute = mode
	}
	return gpus
}

func TestShortage(t *testing.T) {
	amd := []Traits{{Vendor: partition.AMD, MinorsPerGPU: 8, PartitionPrefix: "amdgpu_xcp"}}
	bmc := []Card{{"0000:03:00.0", "ast"}}
	full := append([]Card{}, bmc...)
	for i := range 63 {
		full = append(full, Card{fmt.Sprintf("amdgpu_xcp_%d", i), "amdgpu_xcp"})
	}
	eight, nine := typicalNode(8, "CPX"), typicalNode(9, "CPX")
	last, ninth := string(eight[7].Address), string(nine[8].Address)
	for _, c := range []struct {
		name string
		m    Minors
		gpus []partition.GPU
		want string // the partitions
		text string // among the words
	}{
		{name: "as many as fit", m: Minors{Kernel: "6.8.0"}, gpus: eight},
		{name: "a BMC", m: Minors{Kernel: "6.8.0-45-generic", Cards: bmc}, gpus: eight, want: last + "-7",
			text: "the GPUs and ast take 65 DRM devices, whatever the modes, and kernel 6.8.0-45-generic has 64 (according to its version"},
		{name: "a BMC, on a kernel that is not known", m: Minors{Cards: bmc}, gpus: eight, want: last + "-7", text: "older kernels have 64"},
		{name: "that partition is inactive", m: Minors{Kernel: "6.8.0", Cards: bmc}, gpus: typicalNode(8, "QPX")},
		{name: "a newer kernel", m: Minors{Kernel: "6.12.0", Cards: bmc}, gpus: eight},
		{name: "a stable one", m: Minors{Kernel: "6.6.53", Cards: bmc}, gpus: eight},
		{name: "an older stable one", m: Minors{Kernel: "6.6.52", Cards: bmc}, gpus: eight, want: last + "-7"},
		{name: "a distribution's, which has more than its number says", m: Minors{Kernel: "5.14.0-503.el9", Highest: 192, Cards: bmc}, gpus: eight},
		{name: "a number that says more than there is", m: Minors{Kernel: "6.12.1", Highest: 191, Cards: full}, gpus: eight, want: last + "-7", text: "all of them are in use, and no higher minor"},
		{name: "nine GPUs", m: Minors{Kernel: "6.11.0"}, gpus: typicalNode(9, "DPX"), want: ninth + "-0, " + ninth + "-1"},
		{name: "ten, of which the driver has no room for the last", m: Minors{Kernel: "6.18.0"}, gpus: typicalNode(10, "CPX"),
			want: fmt.Sprintf("%[1]s-2, %[1]s-3, %[1]s-4, %[1]s-5, %[1]s-6, %[1]s-7", typicalNode(10, "CPX")[9].Address), text: "the driver has 64 for further partitions"},
		{name: "GPUs of another vendor", m: Minors{Kernel: "6.8.0"}, gpus: append(typicalNode(8, "CPX"), partition.GPU{Address: "0001:00:00.0", Vendor: 0x10de}), want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.m.traits = amd
			s := c.m.Shortage(c.gpus)
			if s == nil {
				s = &Shortage{}
			}
			if got := strings.Join(s.Partitions, ", "); got != c.want || !strings.Contains(s.Text, c.text) {
				t.Errorf("%q have none: %s (%s); want %q, %q", got, s.Text, s.Hint, c.want, c.text)
			}
		})
	}
}
