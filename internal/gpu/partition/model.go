package partition

import (
	"fmt"
	"slices"
	"sync"
)

// Model is the table's entry for a GPU model. What a device lists about itself wins.
type Model struct {
	Device  uint16 // PCI device id
	Name    string // AMD's product name, "MI300X"
	XCC     int    // 0 if unknown
	Virtual bool   // an SR-IOV virtual function: only the host can set its modes

	accepted  []combination // nil: unknown
	validated []combination
}

type combination struct {
	compute Compute
	memory  []Memory
}

// models lists the known models. accepted: the driver's gfx_v9_4_3 (__aqua_vanjaram_is_valid_mode) and the table of
// gfx_v9_5_0. validated: AMD's GPU partitioning guides for MI300X and MI300A.
var models = sync.OnceValue(func() []Model {
	eight := []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1, NPS2}},
		{QPX, []Memory{NPS1, NPS4}},
		{CPX, []Memory{NPS1, NPS4}},
	}
	gfx950 := []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1, NPS2}},
		{QPX, []Memory{NPS1, NPS2, NPS4}},
		{CPX, []Memory{NPS1, NPS2, NPS4}},
	}
	apu := []combination{
		{SPX, []Memory{NPS1}},
		{TPX, []Memory{NPS1}},
		{CPX, []Memory{NPS1}},
	}
	corners := []combination{{SPX, []Memory{NPS1}}, {CPX, []Memory{NPS4}}}
	return []Model{
		{Device: 0x74a0, Name: "MI300A", XCC: 6, accepted: apu, validated: apu},
		{Device: 0x74a1, Name: "MI300X", XCC: 8, accepted: eight, validated: corners},
		{Device: 0x74a2, Name: "MI308X"},
		{Device: 0x74a5, Name: "MI325X", XCC: 8, accepted: eight},
		{Device: 0x74b5, Name: "MI300X VF", XCC: 8, Virtual: true, accepted: eight},
		{Device: 0x75a0, Name: "MI350X", XCC: 8, accepted: gfx950},
		{Device: 0x75a3, Name: "MI355X", XCC: 8, accepted: gfx950},
	}
})

// LookupModel returns the model with that PCI vendor and device id.
func LookupModel(vendor Vendor, device uint16) (Model, bool) {
	for _, m := range models() {
		if vendor == AMD && m.Device == device {
			return m, true
		}
	}
	return Model{}, false
}

// Accepts reports whether the driver accepts the two modes together on this model. It is
// true for a model with unknown combinations, where only the device can decide.
func (m Model) Accepts(c Compute, n Memory) bool {
	return m.accepted == nil || contains(m.accepted, c, n)
}

// Validated reports whether AMD lists the combination as validated for this model. The
// driver accepts more.
func (m Model) Validated(c Compute, n Memory) bool { return contains(m.validated, c, n) }

// computeFor lists the compute modes that are accepted with memory mode n.
func (m Model) computeFor(n Memory) []Compute {
	var out []Compute
	for _, c := range ComputeModes() {
		if contains(m.accepted, c, n) {
			out = append(out, c)
		}
	}
	return out
}

// Remark returns a caveat about accepted modes of the GPU, or "".
func (g GPU) Remark() string {
	if m, known := LookupModel(g.Vendor, g.Device); known && !m.Validated(g.Compute, g.Memory) {
		return fmt.Sprintf("accepted by the driver; AMD does not list %s as validated on %s", g.Mode(), m.Name)
	}
	return ""
}

func contains(all []combination, c Compute, n Memory) bool {
	return slices.ContainsFunc(all, func(k combination) bool {
		return k.compute == c && slices.Contains(k.memory, n)
	})
}
