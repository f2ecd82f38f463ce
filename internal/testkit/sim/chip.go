package sim

import (
	"slices"

	"dcm/internal/gpu/partition"
)

// Chip is a model of a PCI function.
type Chip struct {
	Product              string
	Driver               string // the kernel module that drives it
	Vendor, Device       uint16
	SubVendor, SubDevice uint16
	Class                uint32
	Revision             uint8

	GFX    int // KFD's gfx_target_version, 90402 for gfx942
	XCC    int // number of compute dies; 0: the chip has no partition files
	CU     int // active compute units of one compute die
	SDMA   int
	VCN    int
	JPEG   int
	VRAM   uint64 // bytes
	APU    bool
	Locked bool // an SR-IOV virtual function or a vGPU: only the host can change its modes

	MIG string // the board's name in the stand-in for libnvidia-ml; "" for a GPU without MIG

	Accepts []Accepted         // the compute modes that the driver accepts with each memory mode
	Memory  []partition.Memory // the supported memory modes; if there is only one, it cannot be changed
}

// Accepted lists the compute modes that the driver accepts with a memory mode.
type Accepted struct {
	Memory  partition.Memory
	Compute []partition.Compute
}

// AMD reports whether amdgpu drives the chip.
func (c Chip) AMD() bool { return c.Driver == "amdgpu" }

// NVIDIA reports whether nvidia drives the chip.
func (c Chip) NVIDIA() bool { return c.Driver == "nvidia" }

// Fits returns the compute modes that the driver accepts with m.
func (c Chip) Fits(m partition.Memory) []partition.Compute {
	i := slices.IndexFunc(c.Accepts, func(a Accepted) bool { return a.Memory == m })
	if i < 0 {
		return nil
	}
	return c.Accepts[i].Compute
}

// computeModes returns the compute modes that the driver accepts with any memory mode.
func (c Chip) computeModes() []partition.Compute {
	return slices.DeleteFunc(partition.ComputeModes(), func(m partition.Compute) bool {
		return len(c.memoryFor(m)) == 0
	})
}

// memoryFor returns the memory modes with which the driver accepts m.
func (c Chip) memoryFor(m partition.Compute) []partition.Memory {
	var out []partition.Memory
	for _, a := range c.Accepts {
		if slices.Contains(a.Compute, m) {
			out = append(out, a.Memory)
		}
	}
	return out
}

const gib = 1 << 30

func mi300x() Chip {
	const spx, dpx, qpx, cpx = partition.SPX, partition.DPX, partition.QPX, partition.CPX
	return Chip{
		Product: "AMD Instinct MI300X OAM", Driver: "amdgpu", Class: 0x120000,
		Vendor: uint16(partition.AMD), Device: 0x74a1, SubVendor: uint16(partition.AMD), SubDevice: 0x74a1,
		GFX: 90402, XCC: 8, CU: 38, SDMA: 16, VCN: 4, JPEG: 4, VRAM: 192 * gib,
		Accepts: []Accepted{
			{partition.NPS1, []partition.Compute{spx, dpx, qpx, cpx}},
			{partition.NPS2, []partition.Compute{dpx}},
			{partition.NPS4, []partition.Compute{qpx, cpx}},
		},
		// The hardware lists NPS8, although no compute mode can be used with it.
		Memory: []partition.Memory{partition.NPS1, partition.NPS2, partition.NPS4, partition.NPS8},
	}
}

func mi300xVF() Chip {
	c := mi300x()
	c.Product, c.Device, c.Locked, c.Memory = "AMD Instinct MI300X VF", 0x74b5, true, c.Memory[:1]
	return c
}

func mi325x() Chip {
	c := mi300x()
	c.Product, c.Device, c.SubDevice, c.VRAM = "AMD Instinct MI325X", 0x74a5, 0x74a5, 256*gib
	return c
}

func mi355x() Chip {
	const spx, dpx, qpx, cpx = partition.SPX, partition.DPX, partition.QPX, partition.CPX
	c := mi300x()
	c.Product, c.Device, c.SubDevice, c.VRAM = "AMD Instinct MI355X", 0x75a3, 0x75a3, 288*gib
	c.GFX, c.CU = 90500, 32
	c.Accepts = []Accepted{
		{partition.NPS1, []partition.Compute{spx, dpx, qpx, cpx}},
		{partition.NPS2, []partition.Compute{dpx, qpx, cpx}},
		{partition.NPS4, []partition.Compute{qpx, cpx}},
	}
	c.Memory = c.Memory[:3]
	return c
}

func mi300a() Chip {
	c := mi300x()
	c.Product, c.Device, c.SubDevice, c.VRAM = "AMD Instinct MI300A", 0x74a0, 0x74a0, 128*gib
	c.XCC, c.APU, c.Memory = 6, true, c.Memory[:1]
	c.Accepts = []Accepted{{partition.NPS1, []partition.Compute{partition.SPX, partition.TPX, partition.CPX}}}
	return c
}

func mi210() Chip {
	return Chip{
		Product: "AMD Instinct MI210", Driver: "amdgpu", Class: 0x038000, Revision: 2,
		Vendor: uint16(partition.AMD), Device: 0x740f, SubVendor: uint16(partition.AMD), SubDevice: 0x0c34,
		GFX: 90010, CU: 104, SDMA: 5, VCN: 2, VRAM: 64 * gib,
	}
}

// aspeed is the display of a server's management controller.
func aspeed() Chip {
	return Chip{
		Product: "ASPEED Graphics Family", Driver: "ast", Class: 0x030000, Revision: 0x52,
		Vendor: 0x1a03, Device: 0x2000, SubVendor: 0x1a03, SubDevice: 0x2000,
	}
}
