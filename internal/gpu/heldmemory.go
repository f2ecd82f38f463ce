package gpu

import "dcm/internal/gpu/partition"

// MemoryUse is the memory of one GPU in bytes: in use, and in use by processes that exist. A process that
// was killed in a call of the driver can leave memory that no process holds.
type MemoryUse struct {
	GPU     partition.Address
	Total   uint64
	Used    uint64 // according to the driver
	Visible uint64 // memory of the processes that the driver lists and that exist in /proc
	Busy    bool   // a process uses the GPU
}

// minHeldMemory is the largest amount, in bytes, that is never counted as held: page tables and buffers of the driver.
const minHeldMemory = 1 << 30

// Held returns the memory in use that no process holds, 0 if it is at most two percent of the memory or
// [minHeldMemory].
func (m MemoryUse) Held() uint64 {
	if m.Used <= m.Visible || m.Used-m.Visible <= max(minHeldMemory, m.Total/50) {
		return 0
	}
	return m.Used - m.Visible
}
