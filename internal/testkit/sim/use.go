package sim

// Using describes the use of a partition. It is written to ctl/use.
type Using struct {
	Partition string  `json:"partition"`      // "0000:05:00.0-3"
	Busy      *uint64 `json:"busy,omitempty"` // percentage for each of its dies; any number is accepted
	PID       int     `json:"pid,omitempty"`  // a KFD process with memory in the partition
	VRAM      uint64  `json:"vram"`           // bytes of the process; 0 to remove it

	// Context is the number of the further context of the process that has the memory (Linux 7.0,
	// AMDKFD_IOC_CREATE_PROCESS); 0 for its first one.
	Context int `json:"context,omitempty"`
}

// uses contains the use of the partitions.
type uses struct {
	vram  map[tenant]uint64
	busy  map[spot]uint64
	sums  map[spot]uint64
	ticks map[int]uint64 // number of samples of the firmware, by board
	reads int
}

type tenant struct{ pid, context, board, partition int }

type spot struct{ board, partition int }

// tick adds a sample of one second to the counters of a board. The caller holds n.mu.
func tick(n *Node, b *board) {
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

// boardPower is the power of every board, in watts.
const boardPower = 300

// energy returns the energy_accumulator of a board: its power in the time of its samples, in 2^-16 J. The
// caller holds n.mu.
func energy(n *Node, b *board) uint64 { return n.uses.ticks[b.index] / 1000 * boardPower << 16 }

// vramUsed returns the memory of a board that is in use, including that of the driver.
func vramUsed(n *Node, b *board) uint64 {
	const own = 297271296
	sum := uint64(own)
	for t, bytes := range n.uses.vram {
		if t.board == b.index {
			sum += bytes
		}
	}
	return sum
}
