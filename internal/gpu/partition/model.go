package partition

import (
	"slices"
	"strings"
	"sync"
)

// Model is the table's entry for a GPU model. On a host, what the device lists takes precedence.
type Model struct {
	Device  uint16 // PCI device id
	Name    string // AMD's product name, "MI300X"
	XCC     int    // of the whole GPU, not of a virtual function; 0 if unknown
	Virtual bool   // an SR-IOV virtual function: only the host can set its modes

	accepted []combination // nil: unknown
	listed   []listing
}

type combination struct {
	compute Compute
	memory  []Memory
}

// listing is what a document of AMD says about a model.
type listing struct {
	document Document
	modes    []combination
}

// models lists the known models. PCI ids and XCC counts: rocprofiler-compute's
// mi_gpu_spec.yaml and the device lists of AMD's GPU operator.
var models = sync.OnceValue(func() []Model {
	nps1 := []Memory{NPS1}
	matrix := func(modes ...combination) listing {
		return listing{partitioningMatrix(), append([]combination{{SPX, nps1}}, modes...)}
	}
	dpx2 := combination{DPX, []Memory{NPS2}}
	qpx2 := listing{rocm713(), []combination{{QPX, []Memory{NPS2}}}}

	mi300a := Model{Device: 0x74a0, Name: "MI300A", XCC: 6, accepted: gfx943Six(),
		listed: []listing{matrix(), {mi300aGuide(), []combination{{TPX, nps1}, {CPX, nps1}}}}}
	mi300x := Model{Device: 0x74a1, Name: "MI300X", XCC: 8, accepted: gfx943Eight(),
		listed: []listing{matrix(dpx2, combination{CPX, []Memory{NPS4}}), {smiGuide(), []combination{
			{DPX, nps1}, {QPX, []Memory{NPS1, NPS4}}, {CPX, nps1}}}}}
	mi325x := Model{Device: 0x74a5, Name: "MI325X", XCC: 8, accepted: gfx943Eight(), listed: []listing{matrix()}}
	mi350x := Model{Device: 0x75a0, Name: "MI350X", XCC: 8, accepted: gfx950Eight(), listed: []listing{matrix(dpx2), qpx2}}
	mi350p := Model{Device: 0x75a8, Name: "MI350P", XCC: 4, accepted: gfx950Four(),
		listed: []listing{{rocm713(), []combination{{CPX, nps1}}}}}
	// rocm-systems pull request 9541, read 2026-11-29: the id, and the modes with NPS1. No document of AMD lists
	// validated modes yet.
	mi455x := Model{Device: 0x75c1, Name: "MI455X", XCC: 8, accepted: gfx1250Eight()}
	mi308x := Model{Device: 0x74a2, Name: "MI308X", XCC: 4, accepted: gfx943Four()}

	physical := []Model{
		mi300a, mi300x, mi308x, mi325x,
		mi308x.sibling(0x74a8, "MI308X-HF"), mi300x.sibling(0x74a9, "MI300X-HF").unlisted(),
		mi350x, {Device: 0x75a2, Name: "MI358X", XCC: 8}, mi350x.sibling(0x75a3, "MI355X"), mi350p, mi455x,
	}
	all := slices.Clone(physical)
	for _, m := range physical {
		vf := m.sibling(virtualID(m.Device), m.Name+" VF").unlisted()
		vf.Virtual = true
		all = append(all, vf)
	}
	return all
})

// virtualID returns the PCI id of the model's virtual functions.
func virtualID(device uint16) uint16 {
	if device>>8 == 0x75 {
		return device + 0x10
	}
	return device + 0x14
}

func (m Model) sibling(device uint16, name string) Model {
	m.Device, m.Name = device, name
	return m
}

func (m Model) unlisted() Model {
	m.listed = nil
	return m
}

// Kind returns the model's name in `dcm check --node`, "mi300x".
func (m Model) Kind() string { return strings.ReplaceAll(strings.ToLower(m.Name), " ", "-") }

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

// Validated reports whether AMD's matrix lists the combination for this model. The driver
// accepts more.
func (m Model) Validated(c Compute, n Memory) bool {
	return m.listedIn(c, n) == partitioningMatrix()
}

// listedIn returns the document in which AMD lists the combination for this model, the zero
// Document if none does.
func (m Model) listedIn(c Compute, n Memory) Document {
	for _, l := range m.listed {
		if contains(l.modes, c, n) {
			return l.document
		}
	}
	return Document{}
}

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

func contains(all []combination, c Compute, n Memory) bool {
	return slices.ContainsFunc(all, func(k combination) bool {
		return k.compute == c && slices.Contains(k.memory, n)
	})
}
