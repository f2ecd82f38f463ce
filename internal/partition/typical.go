package partition

import (
	"fmt"
	"strconv"
	"strings"
)

// Typical returns n GPUs of a model in one hive, as the driver shows them after
// a boot: SPX/NPS1. It is for judging a configuration away from the hardware.
func Typical(device uint16, n int) []GPU {
	buses := []int{0x05, 0x26, 0x46, 0x65, 0x85, 0xa6, 0xc6, 0xe5}
	model, _ := LookupModel(AMD, device)
	var memory []Memory
	for _, m := range MemoryModes() {
		if len(model.computeFor(m)) > 0 {
			memory = append(memory, m)
		}
	}
	switch {
	case len(memory) == 1:
		memory = nil // a single mode is shown, but cannot be changed
	case model.Name == "MI300X":
		memory = append(memory, NPS8) // listed by the device, accepted with nothing
	}
	gpus := make([]GPU, n)
	for i := range gpus {
		domain, bus := i/len(buses), buses[i%len(buses)]
		gpus[i] = GPU{
			Address: Address(fmt.Sprintf("%04x:%02x:00.0", domain, bus)),
			Vendor:  AMD, Device: device, XCC: model.XCC, Hive: 1,
			Compute: SPX, AvailableCompute: model.computeFor(NPS1),
			Memory: NPS1, AvailableMemory: memory,
		}
	}
	return gpus
}

// ParseNode returns the GPUs of a node kind: a model's name in lower case and
// how many there are, "mi300x-8".
func ParseNode(kind string) ([]GPU, error) {
	name, count, ok := strings.Cut(kind, "-")
	n, err := strconv.ParseUint(count, 10, 10)
	if ok && err == nil && n > 0 {
		for _, m := range models() {
			if strings.EqualFold(m.Name, name) && m.accepted != nil && !m.Virtual {
				return Typical(m.Device, int(n)), nil
			}
		}
	}
	return nil, fmt.Errorf("unknown kind of node %q: accepted are a model and a number, such as mi300x-8, mi300a-4, mi325x-8, mi350x-8, mi355x-8", kind)
}
