package sim

import "fmt"

// minor is a DRM minor: a device node.
type minor struct {
	name      string // "card1", "renderD128"
	number    int
	render    bool
	partition int
}

// xcps is how many partitions' devices the driver registers for a GPU, active
// or not (amdgpu_xcp.h: MAX_XCP).
const xcps = 8

// allocateMinors numbers the DRM devices as the kernel does when the drivers
// are probed in PCI order: each device takes a render and a primary minor, of
// which there are 64 each; what does not fit goes on from 192
// (drm_drv.c: DRM_MINOR_LIMIT, DRM_EXTENDED_MINOR_LIMIT). With old it gets none, and its
// partition neither has a node nor is one of KFD's ("Skip xcp node").
func allocateMinors(boards []*board, old bool) {
	primary, render, extended := 0, 128, 192
	take := func(next *int, limit int) int {
		counter := next
		if *next >= limit {
			counter = &extended
		}
		*counter++
		return *counter - 1
	}
	for _, b := range boards {
		devices := 1
		if b.Chip.XCC > 0 {
			devices = xcps
		}
		for p := range devices {
			if old && (primary >= 64 || render >= 192) {
				continue
			}
			if b.Chip.AMD() || b.Chip.NVIDIA() {
				m := take(&render, 192)
				b.minors = append(b.minors, minor{fmt.Sprintf("renderD%d", m), m, true, p})
			}
			m := take(&primary, 64)
			b.minors = append(b.minors, minor{fmt.Sprintf("card%d", m), m, false, p})
		}
	}
}

// renderMinor is the number of a partition's render node.
func (b *board) renderMinor(partition int) int {
	for _, m := range b.minors {
		if m.render && m.partition == partition {
			return m.number
		}
	}
	return -1
}

// ofPartition lists the minors of a partition's device.
func (b *board) ofPartition(p int) []minor {
	var out []minor
	for _, m := range b.minors {
		if m.partition == p {
			out = append(out, m)
		}
	}
	return out
}
