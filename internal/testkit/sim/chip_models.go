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

func rtxPro5000() Chip {
	return nvidiaChip("NVIDIA RTX PRO 5000 Blackwell", 0x2bb3, 0x204d, 48, "RTX-PRO-5000")
}
