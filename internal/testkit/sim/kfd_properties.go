package sim

// properties returns the properties file of a GPU node (kfd_topology.c: node_show).
func (k kfdGPU) properties(all []kfdGPU) string {
	c := k.Chip
	xcc := max(1, c.XCC/k.of)
	cus := uint64(xcc * c.CU)
	const simdsPerCU = 4
	return properties{
		{"cpu_cores_count", 0},
		{"simd_count", cus * simdsPerCU},
		{"mem_banks_count", 1},
		{"caches_count", 0},
		{"io_links_count", uint64(1 + len(k.peers(all)))},
		{"p2p_links_count", 0},
		{"cpu_core_id_base", 0},
		{"simd_id_base", 0x80001000 + uint64(k.index*xcps+k.partition)*0x1000},
		{"max_waves_per_simd", 8},
		{"lds_size_in_kb", 64},
		{"gds_size_in_kb", 0},
		{"num_gws", 64},
		{"wave_front_size", 64},
		{"array_count", uint64(4 * xcc)},
		{"simd_arrays_per_engine", 1},
		{"cu_per_simd_array", 10},
		{"simd_per_cu", simdsPerCU},
		{"max_slots_scratch_cu", 32},
		{"gfx_target_version", uint64(c.GFX)},
		{"vendor_id", uint64(c.Vendor)},
		{"device_id", uint64(c.Device)},
		{"location_id", k.location()},
		{"domain", domain(k.Address)},
		{"drm_render_minor", uint64(k.renderMinor(k.partition))},
		{"hive_id", k.hiveID()},
		{"num_sdma_engines", 2},
		{"num_sdma_xgmi_engines", uint64(max(0, c.SDMA/k.of-2))},
		{"num_sdma_queues_per_engine", 8},
		{"num_cp_queues", uint64(24 * xcc)},
		{"max_engine_clk_fcompute", 2100},
		{"local_mem_size", 0},
		{"fw_version", 177},
		{"capability", 746350208},
		{"debug_prop", 1511},
		{"sdma_fw_version", 22},
		{"unique_id", k.uniqueID() + uint64(k.partition)},
		{"num_xcc", uint64(xcc)},
		{"max_engine_clk_ccompute", 3700},
	}.String()
}

// location returns the PCI bus, device and function. On a GPU with several nodes, the four highest bits
// are the number of the node.
func (k kfdGPU) location() uint64 {
	id := bus(k.Address) << 8
	if k.of > 1 {
		id |= uint64(k.partition) << 28
	}
	return id
}
