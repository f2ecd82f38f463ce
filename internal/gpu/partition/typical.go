package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Typical returns n GPUs of a model in one hive in their state after a boot, SPX/NPS1. It
// serves to validate a configuration without the hardware.
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
	case len(memory) == 1 || model.Virtual:
		memory = nil // the mode is shown and cannot be changed
	case device == 0x74a1:
		memory = append(memory, NPS8) // the device lists it, no compute mode accepts it
	}
	gpus := make([]GPU, n)
	for i := range gpus {
		domain, bus := i/len(buses), buses[i%len(buses)]
		gpus[i] = GPU{
			Address: Address(fmt.Sprintf("%04x:%02x:00.0", domain, bus)),
			Vendor:  AMD, Device: device, XCC: model.XCC, Hive: 1,
			Compute: SPX, AvailableCompute: model.computeFor(NPS1),
			Memory: NPS1, AvailableMemory: memory, ReadOnly: model.Virtual,
		}
	}
	return gpus
}

// TypicalMIG returns n GPUs of a board, with MIG off and with the board's MIG profiles.
func TypicalMIG(b Board, n int) []GPU {
	gpus := make([]GPU, n)
	for i := range gpus {
		gpus[i] = GPU{
			Address: Address(fmt.Sprintf("%04x:%02x:00.0", i/8, 0x19+0x10*(i%8))),
			Vendor:  NVIDIA, Device: b.Device, MIG: &MIG{Off: true}, Profiles: b.Profiles, ModeResetsGPU: b.ModeResetsGPU,
		}
	}
	return gpus
}

// ParseNode returns the GPUs of a kind of node: a model in lower case and a number,
// "mi300x-8", or several of them joined by "+".
func ParseNode(kind string) ([]GPU, error) {
	var all []GPU
	for k, part := range strings.Split(kind, "+") {
		gpus := parseNodePart(part)
		if len(gpus) == 0 || len(all)+len(gpus) > 1023 {
			return nil, fmt.Errorf("unknown kind of node %q: accepted are a model and a number, such as mi300x-8, or several, such as mi300x-4+h100-4; the models are %s",
				kind, List(NodeModels()))
		}
		if slices.ContainsFunc(all, func(g GPU) bool { return g.Vendor == gpus[0].Vendor }) {
			for i := range gpus { // its addresses are in use
				gpus[i].Address = Address(fmt.Sprintf("%04x", k<<8|i/8)) + gpus[i].Address[4:]
			}
		}
		all = append(all, gpus...)
	}
	return all, nil
}

// NodeModels lists the models that [ParseNode] accepts.
func NodeModels() []string {
	var out []string
	for _, m := range models() {
		if m.accepted != nil {
			out = append(out, m.Kind())
		}
	}
	for _, b := range boards() {
		out = append(out, b.kind)
	}
	return out
}

// parseNodePart returns the GPUs of one "model-number"; nil if it is invalid.
func parseNodePart(kind string) []GPU {
	at := strings.LastIndexByte(kind, '-')
	if at < 0 {
		return nil
	}
	n, err := strconv.ParseUint(kind[at+1:], 10, 10)
	if err != nil {
		return nil
	}
	for _, m := range models() {
		if m.Kind() == strings.ToLower(kind[:at]) && m.accepted != nil {
			return Typical(m.Device, int(n))
		}
	}
	for _, b := range Boards() {
		if b.Kind == kind[:at] || strings.EqualFold(b.Name, kind[:at]) {
			return TypicalMIG(b, int(n))
		}
	}
	return nil
}
