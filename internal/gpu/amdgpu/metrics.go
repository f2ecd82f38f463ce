package amdgpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"dcm/internal/gpu"
)

// The driver exports metrics in binary tables whose version is in the header
// (kgd_pp_interface.h: metrics_table_header). Their content comes from the firmware, so
// every offset is checked against the length. An unknown value has all bits set.

// headerSize is the size of structure_size, format_revision and content_revision.
const headerSize = 4

// version is the version of a table.
type version struct{ format, content uint8 }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.format, v.content) }

// errTableShort means that a table is shorter than its header says.
var errTableShort = errors.New("the table is truncated")

// splitHeader returns the version, and the table with the length that the header says.
func splitHeader(data []byte) (version, []byte, error) {
	if len(data) < headerSize {
		return version{}, nil, errTableShort
	}
	size := int(binary.LittleEndian.Uint16(data))
	v := version{data[2], data[3]}
	if size < headerSize || size > len(data) {
		return v, nil, fmt.Errorf("%w (found %d bytes, its header says %d)", errTableShort, len(data), size)
	}
	return v, data[:size], nil
}

// activity is the activity of the accelerator dies (XCC) of one partition.
type activity struct {
	busy []uint64 // percent, per XCC
	sums []uint64 // sum of the percentages, per XCC

	cycles    uint64 // number of samples in sums, if hasCycles
	hasCycles bool

	energy []uint64 // energy_accumulator of the GPU, in a list of attributes; empty if it is unknown
}

// tableLayout has the offsets of a table with a fixed layout, in bytes.
type tableLayout struct {
	cycles int // of accumulation_counter (u32); 0: none
	first  int // of the first partition's entry
	stride int // from one partition's entry to the next
	parts  int
	sums   int // of gfx_busy_acc (u64) in the entry
}

// maxXCC is the number of XCCs in an entry (MAX_XCC). An entry starts with gfx_busy_inst
// (u32).
const maxXCC = 8

// gpuLayout returns the layout of gpu_metrics with partitions (gpu_metrics_v1_6 and later).
// The versions differ in the length of an entry.
func gpuLayout(v version) (tableLayout, bool) {
	switch v {
	case version{1, 6}:
		return tableLayout{cycles: 32, first: 312, stride: 168, parts: 8, sums: 104}, true
	case version{1, 7}:
		return tableLayout{cycles: 40, first: 344, stride: 232, parts: 8, sums: 104}, true
	case version{1, 8}:
		return tableLayout{cycles: 40, first: 344, stride: 440, parts: 8, sums: 120}, true
	}
	return tableLayout{}, false
}

// xcpLayout returns the layout of xcp_metrics of one partition
// (amdgpu_partition_metrics_v1_0).
func xcpLayout(v version) (tableLayout, bool) {
	if v == (version{1, 0}) {
		return tableLayout{first: 48, stride: 440, parts: 1, sums: 120}, true
	}
	return tableLayout{}, false
}

// activity returns the activity of one partition.
func (f tableLayout) activity(t []byte, partition int) (activity, error) {
	if partition < 0 || partition >= f.parts {
		return activity{}, fmt.Errorf("the table has no partition %d", partition)
	}
	at := f.first + partition*f.stride
	if at+f.sums+8*maxXCC > len(t) {
		return activity{}, errTableShort
	}
	var a activity
	for i := range maxXCC {
		a.busy = append(a.busy, knownValue(t[at+4*i:], 4)...)
		a.sums = append(a.sums, knownValue(t[at+f.sums+8*i:], 8)...)
	}
	if f.cycles > 0 {
		a.setCycles(knownValue(t[f.cycles:], 4))
	}
	return a, nil
}

func (a *activity) setCycles(cycles []uint64) {
	if len(cycles) == 1 {
		a.cycles, a.hasCycles = cycles[0], true
	}
}

// knownValue returns the value of size bytes, nil if it is unknown.
func knownValue(t []byte, size int) []uint64 {
	var v uint64
	for i := range size {
		v |= uint64(t[i]) << (8 * i)
	}
	if v == math.MaxUint64>>(64-8*size) {
		return nil
	}
	return []uint64{v}
}

// xcpActivity parses xcp_metrics of a partition.
func xcpActivity(data []byte) (activity, error) {
	v, t, err := splitHeader(data)
	if err != nil {
		return activity{}, err
	}
	if f, ok := xcpLayout(v); ok {
		return f.activity(t, 0)
	}
	if v == (version{1, 1}) {
		return parseAttributes(t)
	}
	return activity{}, &layoutError{v}
}

// gpuActivity parses gpu_metrics for one partition of the GPU.
func gpuActivity(data []byte, index, partitions int) (activity, error) {
	v, t, err := splitHeader(data)
	if err != nil {
		return activity{}, err
	}
	if f, ok := gpuLayout(v); ok {
		return f.activity(t, index)
	}
	if v == (version{1, 9}) && partitions == 1 { // it lists XCCs without their partition
		return parseAttributes(t)
	}
	return activity{}, &layoutError{v}
}

// layoutError means that the version is unknown or has no data of partitions.
type layoutError struct{ version }

func (e *layoutError) Error() string {
	return "version " + e.String() + " has no data of partitions, or is unknown to dcm"
}

// Attributes of a list of attributes (amdgpu_metrics_attr_id).
const (
	attrCycles = 9
	attrBusy   = 40
	attrSums   = 43
)

// parseAttributes parses a table that is a list of attributes. Each has a word with id, type
// and count, followed by the values without padding (gpu_metrics_v1_9,
// amdgpu_partition_metrics_v1_1).
func parseAttributes(t []byte) (activity, error) {
	const counter, word = 4, 8
	if len(t) < headerSize+counter {
		return activity{}, errTableShort
	}
	var a activity
	left := int32(binary.LittleEndian.Uint32(t[headerSize:]))
	for t = t[headerSize+counter:]; left > 0; left-- {
		if len(t) < word {
			return activity{}, errTableShort
		}
		says := binary.LittleEndian.Uint64(t)
		id, kind, count := int(says>>10&0x3ff), int(says>>20&0xf), int(says&0x3ff)
		if kind > 7 {
			return activity{}, fmt.Errorf("attribute %d has the unknown type %d", id, kind)
		}
		size := 1 << (kind / 2) // u8, s8, u16, s16, …
		if len(t) < word+size*count {
			return activity{}, errTableShort
		}
		a.setAttribute(id, t[word:word+size*count], size)
		t = t[word+size*count:]
	}
	return a, nil
}

func (a *activity) setAttribute(id int, t []byte, size int) {
	var all []uint64
	for ; len(t) >= size; t = t[size:] {
		all = append(all, knownValue(t, size)...)
	}
	switch id {
	case attrEnergy:
		a.energy = all
	case attrCycles:
		a.setCycles(all)
	case attrBusy:
		a.busy = all
	case attrSums:
		a.sums = all
	}
}

// fill sets the usage to the mean of the XCCs.
func (a activity) fill(u *gpu.PartitionUsage) {
	if n := uint64(len(a.sums)); n > 0 && a.hasCycles {
		u.Counter.Cycles = a.cycles
		for _, s := range a.sums {
			u.Counter.Sum += s / n
		}
	}
	var sum float64
	for _, p := range a.busy {
		if p > 100 {
			u.NoBusyReason = fmt.Sprintf("the firmware reports %d %%", p)
			return
		}
		sum += float64(p)
	}
	switch {
	case len(a.busy) > 0:
		u.Busy = sum / float64(len(a.busy))
	case u.Counter.Cycles > 0:
		u.NoBusyReason = "the firmware only has a sum, which needs two readings; see `dcm top`"
	default:
		u.NoBusyReason = "the firmware does not report it"
	}
}
