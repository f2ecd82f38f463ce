package amdgpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"dcm/internal/gpu"
)

// The driver tells of its GPUs' state in tables whose form is in their header
// (kgd_pp_interface.h: metrics_table_header). They come from the firmware by way of
// the driver and are taken for what anybody might have written: nothing of them is
// believed that does not lie within what was read. What the firmware does not tell has
// all bits set.

// headerSize is that of structure_size, format_revision and content_revision.
const headerSize = 4

// version is a table's form.
type version struct{ format, content uint8 }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.format, v.content) }

// errTableShort is that of a table that ends before what its header promises.
var errTableShort = errors.New("it is cut short")

// table takes the header off; what it returns is as long as the header says.
func splitHeader(data []byte) (version, []byte, error) {
	if len(data) < headerSize {
		return version{}, nil, errTableShort
	}
	size := int(binary.LittleEndian.Uint16(data))
	v := version{data[2], data[3]}
	if size < headerSize || size > len(data) {
		return v, nil, fmt.Errorf("%w: its header says %d bytes, and there are %d", errTableShort, size, len(data))
	}
	return v, data[:size], nil
}

// activity is how busy the accelerator dies (XCC) of one partition are.
type activity struct {
	busy []uint64 // percent, of each
	sums []uint64 // the percentages added up, of each

	cycles    uint64 // how many of them, where that is told
	hasCycles bool
}

// form is where a table of fixed offsets has its figures.
type tableLayout struct {
	cycles int // u32 accumulation_counter; 0 where there is none
	first  int // of what there is for each partition
	stride int // between one partition's and the next
	parts  int
	sums   int // u64 gfx_busy_acc, behind first
}

// diesMost is how many dies a table has room for (MAX_XCC); u32 gfx_busy_inst is at the
// beginning of each partition's part.
const maxXCC = 8

// gpuForms are those of gpu_metrics that tell of partitions (gpu_metrics_v1_6 and on).
// They differ by how many more figures each partition has.
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

// partForm is that of xcp_metrics (amdgpu_partition_metrics_v1_0), which is about one
// partition.
func xcpLayout(v version) (tableLayout, bool) {
	if v == (version{1, 0}) {
		return tableLayout{first: 48, stride: 440, parts: 1, sums: 120}, true
	}
	return tableLayout{}, false
}

// of returns what the table says of one partition.
func (f tableLayout) activity(t []byte, partition int) (activity, error) {
	if partition < 0 || partition >= f.parts {
		return activity{}, fmt.Errorf("it has no partition %d", partition)
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

// told is the figure of that many bytes, and none if the firmware does not tell it.
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

// partActivity reads a partition's xcp_metrics.
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

// gpuActivity reads what a GPU's gpu_metrics say of one of its partitions.
func gpuActivity(data []byte, index, partitions int) (activity, error) {
	v, t, err := splitHeader(data)
	if err != nil {
		return activity{}, err
	}
	if f, ok := gpuLayout(v); ok {
		return f.activity(t, index)
	}
	if v == (version{1, 9}) && partitions == 1 { // it tells of the dies, and not whose they are
		return parseAttributes(t)
	}
	return activity{}, &layoutError{v}
}

// formError is that of a form that tells nothing of a partition, or that is not known.
type layoutError struct{ version }

func (e *layoutError) Error() string {
	return "version " + e.String() + " does not tell, or is not known to dcm"
}

// Attributes of a listed table (amdgpu_metrics_attr_id).
const (
	attrCycles = 9
	attrBusy   = 40
	attrSums   = 43
)

// listed reads a table that is a list of attributes: a word that says what follows, and
// the figures, without padding (gpu_metrics_v1_9, amdgpu_partition_metrics_v1_1).
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
			return activity{}, fmt.Errorf("attribute %d is of type %d, which dcm does not know", id, kind)
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
	case attrCycles:
		a.setCycles(all)
	case attrBusy:
		a.busy = all
	case attrSums:
		a.sums = all
	}
}

// use tells of the activity in u: the mean of the dies.
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
			u.NoBusyReason = fmt.Sprintf("the firmware tells of %d %%", p)
			return
		}
		sum += float64(p)
	}
	switch {
	case len(a.busy) > 0:
		u.Busy = sum / float64(len(a.busy))
	case u.Counter.Cycles > 0:
		u.NoBusyReason = "the firmware adds it up, and two looks tell: see dcm top"
	default:
		u.NoBusyReason = "the firmware does not tell"
	}
}
