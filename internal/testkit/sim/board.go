package sim

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
)

// board is the state of one PCI function.
type board struct {
	Board
	index  int
	minors []minor // the minors of its DRM devices

	vanished bool
	bound    bool // bound to its driver
	bindings int  // how often it was bound
	compute  partition.Compute
	memory   partition.Memory

	allocates  bool // the driver has the memory allocation mode
	allocation partition.Allocation

	isolation [xcps]int // enforce_isolation, by partition
	cleaned   [xcps]int // how often run_cleaner_shader was written, by partition

	pending partition.Memory  // requested with a write to the driver
	next    partition.Memory  // the requested mode, which the firmware got when the driver was unloaded
	config  partition.Compute // the mode that is selected in compute_partition_config

	resetting bool // the hive is in reset: reads and writes are refused
	switching bool
	settled   time.Time // when the last process that used it was removed
	switches  int
	writes    map[string]int // number of write(2) calls by file, including failed ones
}

// partitions returns the number of active partitions.
func (b *board) partitions() int {
	if b.Chip.XCC == 0 {
		return 1
	}
	return b.compute.Partitions(b.Chip.XCC)
}

// resetAllocation is the end of amdgpu_xcp_init: each load and each switch selects capping.
func (b *board) resetAllocation() {
	if b.allocates {
		b.allocation = partition.Capping
	}
}

// isolationText is a read of enforce_isolation.
func (b *board) isolationText() string {
	return strings.Trim(fmt.Sprint(b.isolation[:b.partitions()]), "[]")
}

// resetIsolation is the end of a load: enforce_isolation has the value of the module parameter. A switch keeps it.
func (b *board) resetIsolation() { b.isolation = [xcps]int{} }

func (b *board) gpuUUID() string {
	id := b.uniqueID()
	return fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", id>>32, id>>16&0xffff, id&0xffff, b.index, id&0xffffffffffff)
}

// uniqueID returns a constant number as the ID of a GPU, and hiveID as that of its hive.
func (b *board) uniqueID() uint64 { return 0x5eed<<48 | uint64(b.index+1)*0x9e3779b1 }

func (b *board) hiveID() uint64 {
	if b.Hive == 0 {
		return 0
	}
	return 0xa11ce<<40 | uint64(b.Hive)
}
