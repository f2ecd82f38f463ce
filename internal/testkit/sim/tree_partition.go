package sim

import (
	"context"
	"strconv"
	"strings"
	"syscall"

	"dcm/internal/gpu/partition"
)

// addPartitionFiles adds the files that amdgpu has for a GPU that supports partitions
// (amdgpu_gfx_sysfs_xcp_init, amdgpu_gmc_sysfs_init, amdgpu_xcp_cfg_sysfs_init).
func addPartitionFiles(n *Node, t tree, b *board) {
	c := b.Chip
	show := func(name string, content func() string) *Entry {
		return attribute(0o444, func(ctx context.Context) (string, error) { return readMode(ctx, n, b, name, content) })
	}
	store := func(e *Entry, set func(context.Context, partition.Address, string) error) *Entry {
		e.Mode |= 0o200
		e.write = func(ctx context.Context, text string) error { return set(ctx, b.Address, text) }
		return e
	}

	compute := show(computeFile, func() string { return string(b.compute) })
	if !c.Locked {
		store(compute, n.SetCompute)
	}
	t.put(computeFile, compute)
	t.put("available_compute_partition", show("available_compute_partition", func() string { return available(c, b.memory) }))

	memory := show(memoryFile, func() string { return string(b.memory) })
	if !c.fixedMemory() {
		store(memory, n.SetMemory)
		t.text("available_memory_partition", partition.List(c.Memory))
	}
	t.put(memoryFile, memory)
	if b.allocates {
		t.put(allocationFile, store(show(allocationFile, func() string { return strings.ToUpper(string(b.allocation)) }), n.SetAllocation))
	}
	if n.opts.Cleaner {
		t.put(cleanerFile, &Entry{Mode: syscall.S_IFREG | 0o200, write: func(ctx context.Context, text string) error { return n.Clean(ctx, b.Address, text) }})
		t.put(isolationFile, store(show(isolationFile, b.isolationText), n.SetIsolation))
	}

	if b.recorded != nil && b.recorded.plain {
		return
	}
	const dir = "compute_partition_config/"
	t.text(dir+"supported_xcp_configs", partition.List(c.computeModes()))
	t.put(dir+"supported_nps_configs", show("supported_nps_configs", func() string { return partition.List(c.memoryFor(b.config)) }))
	t.put(dir+configFile, store(show(configFile, func() string { return string(b.config) }), func(ctx context.Context, a partition.Address, text string) error { return setConfig(ctx, n, a, text) }))
	for _, r := range []struct {
		name  string
		count int
	}{{"xcc", c.XCC}, {"dma", c.SDMA}, {"dec", c.VCN}, {"jpeg", c.JPEG}} {
		instances := show("num_inst", func() string { return strconv.Itoa(max(1, r.count/b.config.Partitions(c.XCC))) })
		sharing := show("num_shared", func() string { return strconv.Itoa(max(1, b.config.Partitions(c.XCC)/max(1, r.count))) })
		instances.Mode &^= 0o044
		sharing.Mode &^= 0o044
		t.put(dir+r.name+"/num_inst", instances)
		t.put(dir+r.name+"/num_shared", sharing)
	}
}
