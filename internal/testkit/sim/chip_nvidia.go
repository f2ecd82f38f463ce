package sim

// nvidiaVendor is the PCI vendor id.
const nvidiaVendor = 0x10de

func a100() Chip { return nvidiaChip("NVIDIA A100-SXM4-80GB", 0x20b2, 0x1533, 80, "A100-80GB") }

func h100() Chip { return nvidiaChip("NVIDIA H100 80GB HBM3", 0x2330, 0x16c1, 80, "H100-80GB") }

func a30() Chip { return nvidiaChip("NVIDIA A30", 0x20b7, 0x1532, 24, "A30") }

func b200() Chip { return nvidiaChip("NVIDIA B200", 0x2901, 0x1999, 180, "B200-180GB") }

func rtxPro() Chip {
	return nvidiaChip("NVIDIA RTX PRO 6000 Blackwell Server Edition", 0x2bb5, 0x204e, 96, "RTX-PRO-6000")
}

func nvidiaChip(product string, device, subdevice uint16, memory uint64, mig string) Chip {
	return Chip{
		Product: product, Driver: "nvidia", Class: 0x030200, Revision: 0xa1,
		Vendor: nvidiaVendor, Device: device, SubVendor: nvidiaVendor, SubDevice: subdevice,
		VRAM: memory * gib, MIG: mig,
	}
}
