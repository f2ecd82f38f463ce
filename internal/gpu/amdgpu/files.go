package amdgpu

// Files of a GPU's PCI device.
const (
	computeFile          = "current_compute_partition"
	availableComputeFile = "available_compute_partition"
	memoryFile           = "current_memory_partition"
	availableMemoryFile  = "available_memory_partition"
	allocationFile       = "compute_partition_mem_alloc_mode" // since Linux 7.1
	isolationFile        = "enforce_isolation"                // since Linux 6.12
)

const driver = "amdgpu"
