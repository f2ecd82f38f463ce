package runstate

import (
	"fmt"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
	"dcm/internal/text"
)

// HeldMemoryFile is in the runtime directory. The daemon writes it.
const HeldMemoryFile = "held-memory.json"

// HeldMemory lists the GPUs with memory in use that no process holds.
type HeldMemory struct {
	Version int          `json:"version"`
	Boot    string       `json:"boot"`
	GPUs    []MemoryHeld `json:"gpus"`
}

// MemoryHeld is the memory of one GPU that has been in use, and that no process has held, for ten seconds.
type MemoryHeld struct {
	GPU   partition.Address `json:"gpu"`
	Bytes uint64            `json:"bytes"`
	Since time.Time         `json:"since"` // when it was first seen
}

func (m MemoryHeld) String() string {
	return fmt.Sprintf("%s: %s in use, and no process holds it", m.GPU, text.GiB(m.Bytes))
}

// HeldMemoryIn returns HeldMemoryFile in the runtime directory.
func HeldMemoryIn(dir string) statefile.File[HeldMemory] {
	return file(dir, HeldMemoryFile, func(m *HeldMemory) *int { return &m.Version })
}

// ReadHeldMemory returns the GPUs of the file, or none if there is no file.
func ReadHeldMemory(dir string) ([]MemoryHeld, error) {
	m, err := HeldMemoryIn(dir).Read()
	if m == nil {
		return nil, err
	}
	return m.GPUs, err
}

// HeldOn returns the held memory of a GPU in bytes, 0 for none.
func HeldOn(list []MemoryHeld, gpu partition.Address) uint64 {
	for _, m := range list {
		if m.GPU == gpu {
			return m.Bytes
		}
	}
	return 0
}
