package sim

import "dcm/internal/gpu/partition"

// mi308x has half of the compute dies of an MI300X.
func mi308x() Chip {
	const spx, dpx, cpx = partition.SPX, partition.DPX, partition.CPX
	c := mi300x()
	c.Product, c.Device, c.SubDevice = "AMD Instinct MI308X", 0x74a2, 0x74a2
	c.XCC, c.CU, c.SDMA = 4, 20, 16
	c.Accepts = []Accepted{
		{partition.NPS1, []partition.Compute{spx, dpx, cpx}},
		{partition.NPS2, []partition.Compute{dpx}},
		{partition.NPS4, []partition.Compute{cpx}},
	}
	c.Memory = c.Memory[:3]
	return c
}

// mi350p is a PCIe card. Its memory mode is fixed.
func mi350p() Chip {
	c := mi355x()
	c.Product, c.Device, c.SubDevice, c.VRAM = "AMD Instinct MI350P", 0x75a8, 0x75a8, 144*gib
	c.XCC, c.SDMA, c.VCN, c.JPEG = 4, 8, 2, 2
	c.Accepts = []Accepted{{partition.NPS1, []partition.Compute{partition.SPX, partition.DPX, partition.CPX}}}
	c.Memory = c.Memory[:1]
	return c
}

// mi455x has the rules of GC 12.1 (amdgpu's soc_v1_0.c): NPS4 without NPS2. Known are the PCI id, 8 XCC and the
// modes (rocm-systems pull request 9541, 2026-08-04), 432 GB of HBM4 (AMD, 2026-07-23), and gfx1250 (hipfort pull
// request 305). Open, and taken from the MI355X: the compute units, the engines, the hive, and whether the board
// lists NPS8.
func mi455x() Chip {
	const spx, dpx, qpx, cpx = partition.SPX, partition.DPX, partition.QPX, partition.CPX
	c := mi355x()
	c.Product, c.Device, c.SubDevice, c.VRAM = "AMD Instinct MI455X", 0x75c1, 0x75c1, 432*gib
	c.GFX = 120500
	c.Accepts = []Accepted{
		{partition.NPS1, []partition.Compute{spx, dpx, qpx, cpx}},
		{partition.NPS4, []partition.Compute{qpx, cpx}},
	}
	c.Memory = []partition.Memory{partition.NPS1, partition.NPS4}
	return c
}

// futureAMD is a model that dcm has no table for, and whose pairs of modes differ from those of every
// known model. A plan for it can only use what the device reports.
func futureAMD() Chip {
	const spx, dpx, tpx, qpx, cpx = partition.SPX, partition.DPX, partition.TPX, partition.QPX, partition.CPX
	c := mi355x()
	c.Product, c.Device, c.SubDevice, c.VRAM = "AMD Instinct", 0x7fa0, 0x7fa0, 432*gib
	c.GFX, c.XCC = 120100, 6
	c.Accepts = []Accepted{
		{partition.NPS1, []partition.Compute{spx, dpx, tpx, cpx}},
		{partition.NPS2, []partition.Compute{dpx, cpx}},
		{partition.NPS4, []partition.Compute{qpx}},
	}
	return c
}

func h200() Chip { return nvidiaChip("NVIDIA H200", 0x2335, 0x18be, 141, "H200-141GB") }

func gb200() Chip { return nvidiaChip("NVIDIA GB200", 0x2941, 0x2046, 186, "GB200") }

func gb300() Chip { return nvidiaChip("NVIDIA GB300", 0x31c2, 0x21f1, 278, "GB300") }

func b300() Chip { return nvidiaChip("NVIDIA B300 SXM6 AC", 0x3182, 0x20e6, 269, "B300") }

func rtxPro4500() Chip {
	return nvidiaChip("NVIDIA RTX PRO 4500 Blackwell", 0x2c31, 0x2051, 32, "RTX-PRO-4500")
}

// h100VGPU is a vGPU as its guest sees it: only the host can change MIG.
func h100VGPU() Chip {
	c := nvidiaChip("NVIDIA H100XM-80C", 0x2330, 0x1a00, 80, "H100-80GB")
	c.Locked = true
	return c
}

func rtxPro5000() Chip {
	return nvidiaChip("NVIDIA RTX PRO 5000 Blackwell", 0x2bb3, 0x204d, 48, "RTX-PRO-5000")
}
