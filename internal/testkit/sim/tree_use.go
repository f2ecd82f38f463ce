package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"dcm/internal/gpu/partition"
)

// UsageFormat is the format of the usage tables, which differs between kernels.
type UsageFormat string

// The formats of released kernels, and invalid ones.
const (
	UsagePartitions UsageFormat = ""      // xcp_metrics 1.0 and gpu_metrics 1.8, in kernels of 2025
	UsageAttributes UsageFormat = "1.1"   // xcp_metrics 1.1 and gpu_metrics 1.9, since the end of 2025
	UsageGPU16      UsageFormat = "1.6"   // only gpu_metrics 1.6
	UsageGPU17      UsageFormat = "1.7"   // only gpu_metrics 1.7
	UsageGPU18      UsageFormat = "1.8"   // only gpu_metrics 1.8
	UsageSums       UsageFormat = "sums"  // gpu_metrics 1.8 of a firmware that reports only counters
	UsageGPU13      UsageFormat = "1.3"   // gpu_metrics 1.3, without values of partitions
	UsageNothing    UsageFormat = "none"  // no usage files
	UsageShort      UsageFormat = "short" // truncated tables
	UsageOther      UsageFormat = "other" // tables in an unknown format
)

// ParseUsageFormat returns the format of that name.
func ParseUsageFormat(name string) (UsageFormat, error) {
	all := []UsageFormat{UsagePartitions, UsageAttributes, UsageGPU16, UsageGPU17, UsageGPU18, UsageSums, UsageGPU13, UsageNothing, UsageShort, UsageOther}
	if !slices.Contains(all, UsageFormat(name)) {
		return "", fmt.Errorf("unknown format of usage %q, accepted: %s", name, partition.List(all[1:]))
	}
	return UsageFormat(name), nil
}

// measured returns an attribute whose reads are counted. The caller of its read holds n.mu.
func measured(n *Node, read func() (string, error)) *Entry {
	return attribute(0o444, func(context.Context) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.uses.reads++
		return read()
	})
}

// addUse adds the files with the usage of a GPU.
func addUse(n *Node, t tree, b *board) {
	// A counter of the kernel: unlike the tables, a read of it is no work for the firmware.
	t.put("mem_info_vram_used", attribute(0o444, func(context.Context) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return strconv.FormatUint(vramUsed(n, b), 10) + "\n", nil
	}))
	t.put("gpu_busy_percent", measured(n, func() (string, error) {
		return fmt.Sprintf("%d\n", n.uses.busy[spot{b.index, 0}]), nil
	}))
	if n.opts.UsageFormat != UsageNothing {
		t.put("gpu_metrics", measured(n, func() (string, error) {
			tick(n, b)
			return gpuMetrics(n, b), nil
		}))
	}
	addPartMetrics(n, t, b, 0)
}

// addPartMetrics adds the table of a partition (amdgpu_xcp.c: xcp_metrics).
func addPartMetrics(n *Node, t tree, b *board, part int) {
	form, has := map[UsageFormat]uint8{UsagePartitions: 0, UsageAttributes: 1, UsageShort: 0, UsageOther: 77}[n.opts.UsageFormat]
	if !has || b.Chip.XCC == 0 {
		return
	}
	file := measured(n, func() (string, error) {
		tick(n, b)
		return partMetrics(n, b, part, form), nil
	})
	t.put("xcp", directory(func() map[string]*Entry {
		n.mu.LockRead()
		defer n.mu.UnlockRead()
		if part >= b.partitions() {
			return nil // the partition is not active
		}
		return tree{"xcp_metrics": file}
	}))
}

// table is a table in the form of the driver: its fields are aligned as by a C compiler, or not aligned. In
// unknown fields all bits are set.
type table struct {
	bytes  []byte
	packed bool
}

func newTable(format, content uint8) *table {
	return &table{bytes: []byte{0, 0, format, content}}
}

// put adds count values of a size in bytes. Those that are not given are unknown.
func (t *table) put(size, count int, figures ...uint64) {
	for !t.packed && len(t.bytes)%size > 0 {
		t.bytes = append(t.bytes, 0)
	}
	for i := range count {
		v := ^uint64(0)
		if i < len(figures) {
			v = figures[i]
		}
		t.bytes = append(t.bytes, binary.LittleEndian.AppendUint64(nil, v)[:size]...)
	}
}

// attribute adds a value of a table with IDs. Its type is u32, or u64 for a sum.
func (t *table) attribute(id, size, count int, figures ...uint64) {
	kind := uint64(map[int]int{1: 0, 2: 2, 4: 4, 8: 6}[size])
	t.put(8, 1, kind<<20|uint64(id)<<10|uint64(count))
	t.put(size, count, figures...)
}

func (t *table) text() string {
	t.put(8, 0)
	binary.LittleEndian.PutUint16(t.bytes, uint16(len(t.bytes)))
	return string(t.bytes)
}

// dies adds a value for each die of a partition.
func dies(n *Node, b *board, figure uint64) []uint64 {
	var out []uint64
	for range max(1, b.Chip.XCC/b.partitions()) {
		out = append(out, figure)
	}
	return out
}

// addXCPFields adds the part of one partition. The number of further values depends on the version.
func addXCPFields(n *Node, t *table, b *board, part, jpeg, more int) {
	at := spot{b.index, part}
	var now, sums []uint64
	if part < b.partitions() {
		now, sums = dies(n, b, n.uses.busy[at]), dies(n, b, n.uses.sums[at])
	}
	if n.opts.UsageFormat == UsageSums {
		now = nil
	}
	t.put(4, 8, now...)
	t.put(2, jpeg)
	t.put(2, 4) // vcn_busy
	t.put(8, 8, sums...)
	t.put(8, 8*more)
}

// gpuMetrics returns the table of a GPU (kgd_pp_interface.h: gpu_metrics_v1_3 to v1_9).
func gpuMetrics(n *Node, b *board) string {
	switch n.opts.UsageFormat {
	case UsageGPU13:
		t := newTable(1, 3)
		t.put(2, 9)
		t.put(8, 16)
		return t.text()
	case UsageAttributes:
		t := &table{bytes: []byte{0, 0, 1, 9}, packed: true}
		t.put(4, 1, 4)
		t.attribute(0, 2, 1, 40)
		t.attribute(7, 8, 1, energy(n, b))
		t.attribute(9, 4, 1, n.uses.ticks[b.index])
		t.attribute(40, 4, 8, dies(n, b, n.uses.busy[spot{b.index, 0}])...)
		return t.text()
	case UsageOther:
		return newTable(7, 7).text()
	}
	content, jpeg, more := uint8(8), 40, 4
	switch n.opts.UsageFormat {
	case UsageGPU16:
		content, jpeg, more = 6, 32, 0
	case UsageGPU17:
		content, jpeg, more = 7, 32, 1
	}
	t := newTable(1, content)
	t.put(2, 6)
	if content > 6 {
		t.put(8, 1) // mem_max_bandwidth
	}
	t.put(8, 2, energy(n, b)) // energy_accumulator, system_clock_counter
	t.put(4, 1, n.uses.ticks[b.index])
	t.put(4, 6) // residencies, gfxclk_lock_status
	t.put(2, 4) // links
	t.put(4, 2)
	t.put(8, 5) // pcie
	t.put(4, 2)
	t.put(8, 16) // xgmi
	if content > 6 {
		t.put(2, 9) // xgmi_link_status, padding
	}
	t.put(8, 1)       // firmware_timestamp
	t.put(2, 8+3*4+1) // clocks
	t.put(2, 1, uint64(b.partitions()))
	for p := range xcps {
		addXCPFields(n, t, b, p, jpeg, more)
	}
	t.put(4, 1)
	return cutTable(n, t.text())
}

// partMetrics returns the table of a partition (amdgpu_partition_metrics_v1_0 and v1_1).
func partMetrics(n *Node, b *board, part int, content uint8) string {
	if content == 1 {
		at := spot{b.index, part}
		t := &table{bytes: []byte{0, 0, 1, 1}, packed: true}
		t.put(4, 1, 3)
		t.attribute(37, 2, 1, 1300)
		t.attribute(40, 4, 8, dies(n, b, n.uses.busy[at])...)
		t.attribute(43, 8, 8, dies(n, b, n.uses.sums[at])...)
		return t.text()
	}
	t := newTable(1, content)
	t.put(2, 8+3*4+2)
	addXCPFields(n, t, b, part, 40, 4)
	return cutTable(n, t.text())
}

func cutTable(n *Node, table string) string {
	if n.opts.UsageFormat == UsageShort {
		return table[:len(table)/2]
	}
	return table
}
