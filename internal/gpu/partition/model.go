package partition

import (
	"fmt"
	"slices"
	"sync"
)

// Model is what is known beforehand about a GPU model. What a device lists
// about itself goes before it.
type Model struct {
	Device  uint16 // PCI device id
	Name    string // as AMD sells it, "MI300X"
	XCC     int    // 0 where not known
	Virtual bool   // an SR-IOV virtual function: its modes are the host's to set

	accepted  []combination // nil: not known
	validated []combination
}

type combination struct {
	compute Compute
	memory  []Memory
}

// What the driver accepts: gfx_v9_4_3's __aqua_vanjaram_is_valid_mode and
// gfx_v9_5_0's table. What AMD validates: the GPU partitioning guides for
// MI300X and MI300A.
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

// Accepts reports whether the driver accepts the two modes together on this
// model. A model whose combinations are not known accepts everything: only the
// device can then tell.
func (m Model) Accepts(c Compute, n Memory) bool {
	return m.accepted == nil || contains(m.accepted, c, n)
}

// Validated reports whether AMD names the combination as validated for this
// model. The driver accepts more than AMD validates.
func (m Model) Validated(c Compute, n Memory) bool { return contains(m.validated, c, n) }

// computeFor lists the modes accepted with memory mode n.
func (m Model) computeFor(n Memory) []Compute {
	var out []Compute
	for _, c := range ComputeModes() {
		if contains(m.accepted, c, n) {
			out = append(out, c)
		}
	}
	return out
}

// Remark says what is known against the GPU's modes, although the driver accepts them.
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
