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
	n.nvidia = absent
	n.emit("remove", "module/nvidia", "module")
	n.changed()
	return nil
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
	n.nvidia = live
	n.emit("add", "module/nvidia", "module")
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && !b.vanished {
			n.bind(b)
			n.came(b)
		}
	}
	n.changed()
	return nil
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
