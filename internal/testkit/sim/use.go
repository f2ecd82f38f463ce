package sim

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"dcm/internal/gpu/partition"
)

// Using says what a partition is used for. It goes into ctl/use.
type Using struct {
	Partition string  `json:"partition"`      // "0000:05:00.0-3"
	Busy      *uint64 `json:"busy,omitempty"` // percent, of each of its dies; any number is shown as it is
	PID       int     `json:"pid,omitempty"`  // a process of KFD's, that has so much memory there
	VRAM      uint64  `json:"vram"`           // 0: it has none any more
}

// uses is what the partitions are used for.
type uses struct {
	vram  map[tenant]uint64
	busy  map[spot]uint64
	sums  map[spot]uint64
	ticks map[int]uint64 // of a board: how often the firmware has added up
	reads int
}

type tenant struct{ pid, board, partition int }

type spot struct{ board, partition int }

// Use has a partition used.
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

// tick has the firmware add up how busy the partitions of a board are, as if a second had
// passed. n.mu is held.
func (n *Node) tick(b *board) {
	if n.uses.ticks == nil {
		return // no usage yet
	}
	const second = 1000
	n.uses.ticks[b.index] += second
	for p := range xcps {
		at := spot{b.index, p}
		n.uses.sums[at] += n.uses.busy[at] * second
	}
}

// vramUsed is the memory of a board that is in use, with what the driver has itself.
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
