package sim

import (
	"cmp"
	"fmt"
	"slices"
)

// minor is a DRM minor: a device node.
type minor struct {
	name      string // "card1", "renderD128"
	number    int
	render    bool
	partition int
}

// xcps is the number of partitions that the driver registers devices for, active or not
// (amdgpu_xcp.h: MAX_XCP).
const xcps = 8

// allocateMinors numbers the DRM devices as the kernel does if the drivers are probed in PCI order. Each
// device gets a render minor and a primary minor. There are 64 of each; further ones begin at 192
// (drm_drv.c: DRM_MINOR_LIMIT, DRM_EXTENDED_MINOR_LIMIT). With old there are no further ones, and the
// partition has neither a node nor a KFD node ("Skip xcp node").
//
// After a rebind a device gets the lowest free minors. scattered returns such an order: by the numbers
// of the partitions, and with the GPUs in reverse order.
func allocateMinors(boards []*board, old, scattered bool) {
	primary, render, extended := 0, 128, 192
	take := func(next *int, limit int) int {
		counter := next
		if *next >= limit {
			counter = &extended
		}
		*counter++
		return *counter - 1
	}
	for _, d := range drmDevices(boards, scattered) {
		if old && (primary >= 64 || render >= 192) {
			continue
		}
		if d.Chip.AMD() || d.Chip.NVIDIA() {
			m := take(&render, 192)
			d.minors = append(d.minors, minor{fmt.Sprintf("renderD%d", m), m, true, d.partition})
		}
		m := take(&primary, 64)
		d.minors = append(d.minors, minor{fmt.Sprintf("card%d", m), m, false, d.partition})
	}
}

type drmDevice struct {
	*board
	partition int
}

// drmDevices returns the devices that the drivers register, in the order of their minors.
func drmDevices(boards []*board, scattered bool) []drmDevice {
	var out []drmDevice
	for _, b := range boards {
		devices := 1
		if b.Chip.XCC > 0 {
			devices = xcps
		}
		for p := range devices {
			out = append(out, drmDevice{b, p})
		}
	}
	if scattered {
		slices.SortStableFunc(out, func(a, b drmDevice) int {
			return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(b.index, a.index))
		})
	}
	return out
}

// renderMinor returns the number of a partition's render node.
func (b *board) renderMinor(partition int) int {
	for _, m := range b.minors {
		if m.render && m.partition == partition {
			return m.number
		}
	}
	return -1
}

// registered reports whether the DRM devices of a bound board exist. Those of NVIDIA belong to nvidia_drm.
// The caller holds n.mu.
func registered(n *Node, b *board) bool {
	return len(b.minors) > 0 && (!b.Chip.NVIDIA() || n.display == live)
}

// minorsOf returns the minors of a partition's device. The caller holds n.mu.
func minorsOf(n *Node, b *board, p int) []minor {
	if !registered(n, b) {
		return nil
	}
	var out []minor
	for _, m := range b.minors {
		if m.partition == p {
			out = append(out, m)
		}
	}
	return out
}
