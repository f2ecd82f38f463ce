package partition

// The pairs of modes that amdgpu accepts, by the number of XCCs: gfx_v9_4_3
// (__aqua_vanjaram_is_valid_mode), and the table of gfx_v9_5_0 since July 2025. Kernels differ, so
// dcm uses them only for another machine and for a driver without compute_partition_config.

func gfx943Eight() []combination {
	return []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1, NPS2}},
		{QPX, []Memory{NPS1, NPS4}},
		{CPX, []Memory{NPS1, NPS4}},
	}
}

// gfx943Six is the APU, whose memory mode is fixed.
func gfx943Six() []combination {
	return []combination{
		{SPX, []Memory{NPS1}},
		{TPX, []Memory{NPS1}},
		{CPX, []Memory{NPS1}},
	}
}

// gfx943Four has no QPX, since a partition of it would have one XCC, as CPX has.
func gfx943Four() []combination {
	return []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1, NPS2}},
		{CPX, []Memory{NPS1, NPS4}},
	}
}

func gfx950Eight() []combination {
	return []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1, NPS2}},
		{QPX, []Memory{NPS1, NPS2, NPS4}},
		{CPX, []Memory{NPS1, NPS2, NPS4}},
	}
}

// gfx1250Eight is GC 12.1 (soc_v1_0.c, Linux 7.2). NPS2 is not in its table. It has no TPX, since the XCCs are not
// divisible by three.
func gfx1250Eight() []combination {
	return []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1}},
		{QPX, []Memory{NPS1, NPS4}},
		{CPX, []Memory{NPS1, NPS4}},
	}
}

// gfx950Four is the PCIe card, whose memory mode is fixed.
func gfx950Four() []combination {
	return []combination{
		{SPX, []Memory{NPS1}},
		{DPX, []Memory{NPS1}},
		{CPX, []Memory{NPS1}},
	}
}
