package sim

import (
	"slices"
	"strings"
	"syscall"

	"dcm/internal/gpu/nvml/standin"
)

// displayModule has the DRM devices of the GPUs. With modeset=1 it holds every GPU, so that none can be reset.
const displayModule = "nvidia_drm"

// unloadDisplay is delete_module(2) of nvidia_drm.
func unloadDisplay(n *Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.display == absent:
		return syscall.ENOENT
	case displayUsers(n) > 0:
		return syscall.EBUSY
	}
	eachNVIDIA(n, func(b *board) { drmEvents(n, "remove", b) })
	n.display = absent
	emit(n, "remove", "module/"+displayModule, "module")
	n.changed()
	return holdNVIDIA(n)
}

// loadDisplay is finit_module(2) of nvidia_drm. If the module is loaded, it does nothing.
func loadDisplay(n *Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.display != absent:
		return nil
	case n.nvidia != live:
		return syscall.ENODEV
	}
	n.display = live
	emit(n, "add", "module/"+displayModule, "module")
	eachNVIDIA(n, func(b *board) { drmEvents(n, "add", b) })
	n.changed()
	return holdNVIDIA(n)
}

// displayUsers returns the use count of nvidia_drm. The caller holds n.mu.
func displayUsers(n *Node) int {
	count := 0
	for h := range n.handles {
		if h.nvidia && strings.HasPrefix(h.Device, "dri/") {
			count++
		}
	}
	return count
}

// eachNVIDIA calls f for each bound GPU of NVIDIA. The caller holds n.mu.
func eachNVIDIA(n *Node, f func(*board)) {
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && b.bound {
			f(b)
		}
	}
}

// holdNVIDIA writes into the stand-in's state whether nvidia_drm holds the GPUs. The caller holds n.mu.
func holdNVIDIA(n *Node) error {
	return updateMIG(n, func(s *standin.State) { s.Held = n.opts.Modeset && n.display == live })
}

// openNVIDIA is an open of one of the driver's device nodes. instance is the GPU instance of a
// capability, or noInstance.
func openNVIDIA(n *Node, name string, b *board, instance, pid int) (*Handle, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nvidia != live || b != nil && !b.bound {
		return nil, syscall.ENXIO
	}
	h := addHandle(n, &Handle{PID: pid, Device: name, board: b, nvidia: true, instance: instance})
	if b != nil {
		countMIG(n, b)
	}
	return h, nil
}

// nvidias returns the boards in the order in which the driver numbers them.
func nvidias(n *Node) []*board {
	return slices.DeleteFunc(slices.Clone(n.boards), func(b *board) bool { return !b.Chip.NVIDIA() })
}
