package partition

import (
	"fmt"
	"slices"
)

// Document is a vendor's document from which a table has its facts.
type Document struct {
	Name     string
	Revision string // of the document: a version or a commit
	Read     string // date on which the facts were taken from it, 2006-01-02
}

func (d Document) String() string {
	return fmt.Sprintf("%s, revision %s, read %s", d.Name, d.Revision, d.Read)
}

// partitioningMatrix is AMD's list of validated pairs of modes, in ROCm/amdgpu-docs.
func partitioningMatrix() Document {
	return Document{"AMD GPU/APU Partitioning, GPU Partitioning Schemes Compatibility Matrix", "14a89b8e", "2026-11-22"}
}

// rocm713 enables more pairs than the matrix lists.
func rocm713() Document {
	return Document{"ROCm 7.13.0 release notes, Expanded Instinct GPU partitioning support", "7.13.0", "2026-11-22"}
}

// mi300aGuide is older than the matrix and describes more modes of the APU.
func mi300aGuide() Document {
	return Document{"MI300A Compute Partitioning", "da91f8f", "2026-11-23"}
}

// smiGuide lists more pairs for the MI300X than the matrix, in ROCm/rocm-systems.
func smiGuide() Document {
	return Document{"AMD SMI, GPU partitioning, Compatibility matrix", "0da2091b", "2026-11-23"}
}

// operatorGuide is the documentation of AMD's own config manager, in ROCm/gpu-operator.
func operatorGuide() Document {
	return Document{"AMD GPU Operator, Device Config Manager ConfigMap", "32919eeb", "2026-11-23"}
}

// dgxStation is NVIDIA's text about MIG on the GB300 of a DGX Station.
func dgxStation() Document {
	return Document{"NVIDIA DGX Station playbooks, mig-configure", "45d747de", "2026-11-23"}
}

// Remark is a caveat about a shape that the driver accepts, or that fits by the table of
// boards. The zero value is none.
type Remark struct {
	Text   string
	Source Document
	NotIn  Document // the document that does not list the modes, if it is another one
}

// Remarks returns the caveats about the shapes of the GPUs, each once: those of a node with
// different compute modes first, then those of each GPU.
func Remarks(gpus []GPU) []Remark {
	var out []Remark
	add := func(r Remark) {
		if r.Text != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	add(mixedRemark(gpus))
	for _, g := range gpus {
		add(remarkOn(g))
	}
	return out
}

// mixedRemark returns what AMD says about a node with different compute modes.
func mixedRemark(gpus []GPU) Remark {
	first := Compute("")
	for _, g := range gpus {
		switch {
		case g.MIG != nil || g.Compute == "":
		case first == "":
			first = g.Compute
		case g.Compute != first:
			return Remark{"mixed compute modes: not recommended or supported by AMD", operatorGuide(), Document{}}
		}
	}
	return Remark{}
}

// remarkOn returns a caveat about the shape of one GPU. The factory default has none.
func remarkOn(g GPU) Remark {
	if g.MIG != nil {
		return remarkOnMIG(g)
	}
	m, known := LookupModel(g.Vendor, g.Device)
	if !known || m.Virtual || g.Mode() == (Mode{SPX, NPS1}) {
		return Remark{}
	}
	switch d := m.listedIn(g.Compute, g.Memory); d {
	case partitioningMatrix():
		return Remark{}
	case Document{}:
		return Remark{fmt.Sprintf("accepted by the driver, not listed by AMD for %s", m.Name), partitioningMatrix(), Document{}}
	default:
		return Remark{fmt.Sprintf("listed by AMD for %s, not in its matrix of validated modes", m.Name), d, partitioningMatrix()}
	}
}

// remarkOnMIG returns a caveat about the geometry. By the placements of a board with seven
// slices, one 3g and two 2g fit. NVIDIA has no such placement for the GB300 of a DGX Station.
func remarkOnMIG(g GPU) Remark {
	if b, known := BoardOf(g); !known || b.Name != "GB300" {
		return Remark{}
	}
	count := make(map[int]int) // GPU instances by their slices
	for _, i := range g.MIG.Instances {
		if p, err := ParseMIGProfile(i.Profile); err == nil {
			count[p.Slices]++
		}
	}
	if count[3] == 0 || count[2] < 2 {
		return Remark{}
	}
	return Remark{"not possible on the GB300 of a DGX Station according to NVIDIA: one 3g with two 2g", dgxStation(), Document{}}
}
