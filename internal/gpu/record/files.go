package record

// attributes are the files of a PCI function that dcm reads, and those that say more about
// the board. None of them has a serial number or a unique id, and no read of them changes
// anything.
func attributes() []string {
	return []string{
		"class", "vendor", "device", "subsystem_vendor", "subsystem_device", "revision", "numa_node", "driver", "enable", "power_state",
		"reset", "reset_method", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "drm/",
		"product_name", "product_number", "vbios_version", "fw_version/*", "mem_info_vram_total", "mem_info_vram_vendor",
		"current_compute_partition", "available_compute_partition", "current_memory_partition", "available_memory_partition", "compute_partition_mem_alloc_mode", "enforce_isolation",
		"compute_partition_config/supported_xcp_configs", "compute_partition_config/supported_nps_configs", "compute_partition_config/xcp_config",
		"compute_partition_config/*/num_inst", "compute_partition_config/*/num_shared",
		"xgmi_hive_info/xgmi_hive_id", "gpu_metrics", "xcp/xcp_metrics",
	}
}

// patterns are the files of the node.
func patterns() []string {
	return []string{
		"/sys/module/amdgpu/version", "/sys/module/amdgpu/srcversion", "/sys/module/amdgpu/initstate", "/sys/module/amdgpu/refcnt",
		"/sys/module/amdgpu/parameters/user_partt_mode", "/sys/module/amdgpu/holders/",
		"/sys/module/nvidia/version", "/sys/module/nvidia/srcversion", "/sys/module/nvidia/initstate", "/sys/module/nvidia/refcnt", "/sys/module/nvidia/holders/",
		"/sys/module/nvidia_drm/parameters/modeset",
		"/sys/class/drm/version", "/sys/class/drm/", "/sys/devices/system/node/online", "/sys/devices/system/cpu/online",
		"/sys/class/kfd/kfd/topology/system_properties",
		"/sys/class/kfd/kfd/topology/nodes/*/gpu_id", "/sys/class/kfd/kfd/topology/nodes/*/name", "/sys/class/kfd/kfd/topology/nodes/*/properties",
		"/sys/class/kfd/kfd/topology/nodes/*/mem_banks/*/properties",
		"/proc/driver/nvidia/version", "/proc/driver/nvidia/gpus/*/information",
		"/proc/driver/nvidia/capabilities/mig/*", "/proc/driver/nvidia/capabilities/gpu*/mig/gi*/access", "/proc/driver/nvidia/capabilities/gpu*/mig/gi*/ci*/access",
		"/dev/kfd", "/dev/dri/card*", "/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia-caps/*",
	}
}
