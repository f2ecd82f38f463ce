package sim

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"dcm/internal/gpu/partition"
)

// Using describes the use of a partition. It is written to ctl/use.
type Using struct {
	Partition string  `json:"partition"`      // "0000:05:00.0-3"
	Busy      *uint64 `json:"busy,omitempty"` // percentage for each of its dies; any number is accepted
	PID       int     `json:"pid,omitempty"`  // a KFD process with memory in the partition
	VRAM      uint64  `json:"vram"`           // bytes of the process; 0 to remove it
}

// uses contains the use of the partitions.
type uses struct {
	vram  map[tenant]uint64
	busy  map[spot]uint64
	sums  map[spot]uint64
	ticks map[int]uint64 // number of samples of the firmware, by board
	reads int
}

type tenant struct{ pid, board, partition int }

type spot struct{ board, partition int }

// Use sets the use of a partition.
func (n *Node) Use(u Using) error {
	i := strings.LastIndexByte(u.Partition, '-')
	if i < 0 {
		return syscall.EINVAL
	}
	part, err := strconv.Atoi(u.Partition[i+1:])
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(partition.Address(u.Partition[:i]))
	if err != nil || b == nil || part < 0 || part >= xcps {
		return fmt.Errorf("there is no partition %s: %w", u.Partition, syscall.EINVAL)
	}
	if n.uses.vram == nil {
		n.uses.vram, n.uses.busy = make(map[tenant]uint64), make(map[spot]uint64)
		n.uses.sums, n.uses.ticks = make(map[spot]uint64), make(map[int]uint64)
	}
	if u.Busy != nil {
		n.uses.busy[spot{b.index, part}] = *u.Busy
	}
	if t := (tenant{u.PID, b.index, part}); u.PID > 0 && u.VRAM > 0 {
		n.uses.vram[t] = u.VRAM
	} else {
		delete(n.uses.vram, t)
	}
	return nil
}

// tick adds a sample of one second to the counters of a board. The caller holds n.mu.
func (n *Node) tick(b *board) {
	if n.uses.ticks == nil {
		return // nothing was set
	}
	const second = 1000
	n.uses.ticks[b.index] += second
	for p := range xcps {
		at := spot{b.index, p}
		n.uses.sums[at] += n.uses.busy[at] * second
	}
}

// vramUsed returns the memory of a board that is in use, including that of the driver.
func (n *Node) vramUsed(b *board) uint64 {
	const own = 297271296
	sum := uint64(own)
	for t, bytes := range n.uses.vram {
		if t.board == b.index {
			sum += bytes
		}
	}
	return sum
}
