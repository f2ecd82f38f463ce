package sim

import (
	"context"
	"fmt"
	"strconv"
	"syscall"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// moduleState is the content of /sys/module/amdgpu/initstate, or "" if the module is not loaded
// (Documentation/ABI/stable/sysfs-module).
type moduleState string

const (
	absent moduleState = ""
	coming moduleState = "coming"
	live   moduleState = "live"
	going  moduleState = "going"
)

// Parameters are the parameters of the module.
type Parameters struct {
	Mode partition.Compute `json:"user_partt_mode,omitempty"` // "" lets the driver choose
}

// ParseParameters parses a module's arguments, such as "user_partt_mode=4". It ignores other parameters.
func ParseParameters(args map[string]string) (Parameters, error) {
	var p Parameters
	text, ok := args["user_partt_mode"]
	if !ok {
		return p, nil
	}
	n, err := strconv.Atoi(text)
	modes := partition.ComputeModes()
	switch {
	case err != nil || n < -2 || n >= len(modes):
		return p, fmt.Errorf("user_partt_mode=%s is no mode: 0 to %d, or -2 for the driver's choice", text, len(modes)-1)
	case n >= 0:
		p.Mode = modes[n]
	}
	return p, nil
}

// String returns the content of the parameter's file.
func (p Parameters) String() string {
	for i, m := range partition.ComputeModes() {
		if m == p.Mode {
			return strconv.Itoa(i)
		}
	}
	return "-2"
}

// Loaded reports whether amdgpu is loaded.
func (n *Node) Loaded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.module == live
}

// Unload is modprobe -r: delete_module(2) of amdgpu, and of drm if no other driver uses it.
// Requested memory modes are passed to the firmware.
func (n *Node) Unload(ctx context.Context) error {
	if _, err := meet(ctx, n, OpUnload, nil, ""); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.module {
	case absent:
		return syscall.ENOENT
	case coming, going:
		return syscall.EBUSY
	}
	if err := unloadable(n); err != nil {
		return err
	}
	for _, b := range n.boards {
		if b.Chip.AMD() {
			if b.bound {
				went(n, b)
			}
			b.bound, b.compute = false, ""
			b.next, b.pending = b.pending, ""
		}
	}
	n.module = absent
	n.unloads++
	emit(n, "remove", "bus/pci/drivers/amdgpu", "drivers")
	emit(n, "remove", "module/amdgpu", "module")
	if !drm(n) {
		emit(n, "remove", "module/drm", "module")
	}
	n.changed()
	return nil
}

// Load is finit_module(2). It returns after the probes of all GPUs that do not hang. If the module is
// loaded, it does nothing, as modprobe does.
func (n *Node) Load(ctx context.Context, p Parameters) error {
	if done, err := beginLoad(n); done || err != nil {
		return err
	}
	if _, err := meet(ctx, n, OpLoad, nil, ""); err != nil {
		endLoad(n, absent)
		return err
	}
	wait(context.WithoutCancel(ctx), n.opts.ReloadLatency, nil)
	n.mu.Lock()
	n.params = p
	n.loads++
	reset := probeAll(n)
	n.mu.Unlock()
	resetHives(context.WithoutCancel(ctx), n, reset)
	endLoad(n, live)
	return nil
}

func beginLoad(n *Node) (done bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.module {
	case live:
		return true, nil
	case coming, going:
		return false, syscall.EBUSY
	}
	n.module = coming
	n.changed()
	return false, nil
}

func endLoad(n *Node, s moduleState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == live {
		// The kernel sends these after the probes (bus_add_driver, do_init_module).
		emit(n, "add", "bus/pci/drivers/amdgpu", "drivers")
		emit(n, "add", "module/amdgpu", "module")
	}
	n.module = s
	n.changed()
}

// UnloadNVIDIA is delete_module(2) of nvidia and of the modules that use it. The module loses its state.
func (n *Node) UnloadNVIDIA() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.nvidia == absent:
		return syscall.ENOENT
	case held(n, func(h *Handle) bool { return h.nvidia }):
		return syscall.EBUSY
	}
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && b.bound {
			went(n, b)
			b.bound = false
		}
	}
	if err := updateMIG(n, (*standin.State).Unload); err != nil {
		return err
	}
	n.nvidia, n.display = absent, absent
	emit(n, "remove", "module/nvidia", "module")
	n.changed()
	return holdNVIDIA(n)
}

// LoadNVIDIA is finit_module(2). If the module is loaded, it does nothing.
func (n *Node) LoadNVIDIA() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nvidia != absent {
		return nil
	}
	if driven(n, Chip.NVIDIA) == absent {
		return syscall.ENODEV
	}
	if err := updateMIG(n, (*standin.State).Load); err != nil {
		return err
	}
	n.nvidia, n.display = live, live
	emit(n, "add", "module/nvidia", "module")
	for _, b := range n.boards {
		if b.Chip.NVIDIA() && !b.vanished {
			bind(n, b)
			came(n, b)
		}
	}
	n.changed()
	return holdNVIDIA(n)
}
