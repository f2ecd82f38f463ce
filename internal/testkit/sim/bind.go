package sim

import (
	"context"
	"fmt"
	"time"
)

// bind is the driver's probe of a GPU. The caller holds n.mu.
func bind(n *Node, b *board) {
	b.bound = true
	b.bindings++
	if b.Chip.XCC > 0 {
		b.compute = modeAtLoad(b.Chip, b.memory, n.params.Mode)
		b.config = b.compute
		b.allocates = n.opts.Allocation || b.recorded != nil && b.recorded.allocation != ""
		b.resetAllocation()
		b.resetIsolation()
	}
	n.changed()
}

// vanish removes a GPU from the bus: it is unbound first, and the device's event comes last
// (device_del). The caller holds n.mu.
func vanish(n *Node, b *board) {
	if b.bound {
		went(n, b)
	}
	if !b.vanished {
		emit(n, "remove", pciPath(b.Address), "pci")
	}
	b.vanished, b.bound = true, false
	if b.Chip.NVIDIA() {
		loseMIG(n, b)
	}
	n.changed()
}

// appear adds a GPU that has vanished to the bus, as PCIe hot-plug does: the device's event comes
// first, then the probe of its driver if that is loaded. The caller holds n.mu.
func appear(n *Node, b *board) error {
	if !b.vanished || b.Chip.NVIDIA() {
		return fmt.Errorf("%s cannot appear: want an AMD GPU that has vanished", b.Address)
	}
	b.vanished, b.pending, b.next = false, "", ""
	for _, other := range hiveOf(n, b) { // the driver keeps a requested memory mode for the whole hive
		if other != b && !other.vanished && (other.bound || n.module != live) {
			b.pending, b.next = other.pending, other.next
			break
		}
	}
	n.changed()
	emit(n, "add", pciPath(b.Address), "pci")
	if n.module == live {
		bind(n, b)
		came(n, b)
	}
	return nil
}

// hiveOf returns the boards that share b's memory mode, including b.
func hiveOf(n *Node, b *board) []*board {
	if b.Hive == 0 {
		return []*board{b}
	}
	var out []*board
	for _, other := range n.boards {
		if other.Hive == b.Hive {
			out = append(out, other)
		}
	}
	return out
}

// probeAll first applies the requested memory modes, as the firmware does for all GPUs of a hive or for
// none (amdgpu_xgmi_request_nps_change). Then it probes every GPU. It returns the GPUs that are reset
// for their new mode. The caller holds n.mu.
func probeAll(n *Node) (reset []*board) {
	faults := make(map[*board]Fault)
	for _, b := range n.boards {
		if !b.Chip.AMD() || b.vanished {
			continue
		}
		faults[b] = strike(n, OpLoad, b, "")
		if faults[b].Wrong {
			for _, member := range hiveOf(n, b) {
				member.next = ""
			}
		}
	}
	for _, b := range n.boards {
		f, ok := faults[b]
		if !ok {
			continue
		}
		if b.next != "" {
			b.memory, b.next = b.next, ""
			b.resetting = n.opts.ResetLatency > 0
			reset = append(reset, b)
		}
		probe(n, b, f)
	}
	return reset
}

// resetHives simulates the reset of the boards for a new memory mode (need_reset_on_init,
// AMDGPU_GMC_INIT_RESET_NPS). The driver resets the whole hive before its load returns; here the
// reset ends after ResetLatency.
func resetHives(ctx context.Context, n *Node, boards []*board) {
	if len(boards) == 0 {
		return
	}
	wait(ctx, n.opts.ResetLatency, nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range boards {
		b.resetting = false
	}
}

// probe binds a GPU, or applies the fault of its probe. The caller holds n.mu.
func probe(n *Node, b *board, f Fault) {
	switch {
	case f.Vanish:
		vanish(n, b)
	case f.Errno != 0:
		n.changed()
	case f.Hang != 0:
		bindLater(n, b, time.Duration(f.Hang))
	default:
		bind(n, b)
		came(n, b)
	}
}

// bindLater binds a GPU after the delay of its probe, unless the driver was unloaded meanwhile. The caller
// holds n.mu.
func bindLater(n *Node, b *board, d time.Duration) {
	load, cleared := n.loads, n.cleared
	go func() {
		wait(context.Background(), d, cleared)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.module == live && n.loads == load && !b.vanished {
			bind(n, b)
			came(n, b)
		}
	}()
}
