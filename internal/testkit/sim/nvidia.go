package sim

import (
	"context"
	"slices"
	"strings"
	"syscall"

	"dcm/internal/gpu/nvml/standin"
)

// controlNVIDIA loads or unloads the nvidia module and the modules that use it.
func (n *Node) controlNVIDIA(_ context.Context, text string) error {
	switch strings.TrimSpace(text) {
	case "load":
		return n.LoadNVIDIA()
	case "unload":
		return n.UnloadNVIDIA()
	case "load " + displayModule:
		return n.LoadDisplay()
	case "unload " + displayModule:
		return n.UnloadDisplay()
	}
	return syscall.EINVAL
}

// UnloadNVIDIA is delete_module(2) of nvidia and of the modules that use it. The module loses its state.
func (n *Node) UnloadNVIDIA() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.nvidia == absent:
		return syscall.ENOENT
	case n.held(func(h *Handle) bool { return h.nvidia }):
		return syscall.EBUSY
	}
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && b.bound {
			n.went(b)
			b.bound = false
		}
	}
	if err := n.updateMIG((*standin.State).Unload); err != nil {
		return err
	}
	n.nvidia, n.display = absent, absent
	n.emit("remove", "module/nvidia", "module")
	n.changed()
	return n.hold()
}

// LoadNVIDIA is finit_module(2). If the module is loaded, it does nothing.
func (n *Node) LoadNVIDIA() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nvidia != absent {
		return nil
	}
	if n.driven(Chip.NVIDIA) == absent {
		return syscall.ENODEV
	}
	if err := n.updateMIG((*standin.State).Load); err != nil {
		return err
	}
	n.nvidia, n.display = live, live
	n.emit("add", "module/nvidia", "module")
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && !b.vanished {
			n.bind(b)
			n.came(b)
		}
	}
	n.changed()
	return n.hold()
}

// displayModule has the DRM devices of the GPUs. With modeset=1 it holds every GPU, so that none can be reset.
const displayModule = "nvidia_drm"

// UnloadDisplay is delete_module(2) of nvidia_drm.
func (n *Node) UnloadDisplay() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.display == absent:
		return syscall.ENOENT
	case n.displayUsers() > 0:
		return syscall.EBUSY
	}
	n.eachNVIDIA(func(b *board) { n.drmEvents("remove", b) })
	n.display = absent
	n.emit("remove", "module/"+displayModule, "module")
	n.changed()
	return n.hold()
}

// LoadDisplay is finit_module(2) of nvidia_drm. If the module is loaded, it does nothing.
func (n *Node) LoadDisplay() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.display != absent:
		return nil
	case n.nvidia != live:
		return syscall.ENODEV
	}
	n.display = live
	n.emit("add", "module/"+displayModule, "module")
	n.eachNVIDIA(func(b *board) { n.drmEvents("add", b) })
	n.changed()
	return n.hold()
}

// displayUsers returns the use count of nvidia_drm. The caller holds n.mu.
func (n *Node) displayUsers() int {
	count := 0
	for h := range n.handles {
		if h.nvidia && strings.HasPrefix(h.Device, "dri/") {
			count++
		}
	}
	return count
}

// eachNVIDIA calls f for each bound GPU of NVIDIA. The caller holds n.mu.
func (n *Node) eachNVIDIA(f func(*board)) {
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && b.bound {
			f(b)
		}
	}
}

// hold writes into the stand-in's state whether nvidia_drm holds the GPUs. The caller holds n.mu.
func (n *Node) hold() error {
	return n.updateMIG(func(s *standin.State) { s.Held = n.opts.Modeset && n.display == live })
}

// openNVIDIA is an open of one of the driver's device nodes. instance is the GPU instance of a
// capability, or noInstance.
func (n *Node) openNVIDIA(name string, b *board, instance, pid int) (*Handle, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nvidia != live || b != nil && !b.bound {
		return nil, syscall.ENXIO
	}
	h := n.open(&Handle{PID: pid, Device: name, board: b, nvidia: true, instance: instance})
	if b != nil {
		n.count(b)
	}
	return h, nil
}

// nvidias returns the boards in the order in which the driver numbers them.
func (n *Node) nvidias() []*board {
	return slices.DeleteFunc(slices.Clone(n.boards), func(b *board) bool { return !b.Chip.NVIDIA() })
}
