package sim

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"time"

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

// Unload is modprobe -r: delete_module(2) of amdgpu, and of drm if no other driver uses it.
// Requested memory modes are passed to the firmware.
func (n *Node) Unload(ctx context.Context) error {
	if _, err := n.meet(ctx, OpUnload, nil, ""); err != nil {
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
	if err := n.unloadable(); err != nil {
		return err
	}
	for _, b := range n.boards {
		if b.Chip.AMD() {
			if b.bound {
				n.went(b)
			}
			b.bound, b.compute = false, ""
			b.next, b.pending = b.pending, ""
		}
	}
	n.module = absent
	n.unloads++
	n.emit("remove", "bus/pci/drivers/amdgpu", "drivers")
	n.emit("remove", "module/amdgpu", "module")
	if !n.drm() {
		n.emit("remove", "module/drm", "module")
	}
	n.changed()
	return nil
}

// Load is finit_module(2). It returns after the probes of all GPUs that do not hang. If the module is
// loaded, it does nothing, as modprobe does.
func (n *Node) Load(ctx context.Context, p Parameters) error {
	if done, err := n.beginLoad(); done || err != nil {
		return err
	}
	if _, err := n.meet(ctx, OpLoad, nil, ""); err != nil {
		n.endLoad(absent)
		return err
	}
	wait(context.WithoutCancel(ctx), n.opts.ReloadLatency)
	n.mu.Lock()
	n.params = p
	n.loads++
	reset := n.probeAll()
	n.mu.Unlock()
	n.reset(context.WithoutCancel(ctx), reset)
	n.endLoad(live)
	return nil
}

func (n *Node) beginLoad() (done bool, err error) {
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

func (n *Node) endLoad(s moduleState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == live {
		// The kernel sends these after the probes (bus_add_driver, do_init_module).
		n.emit("add", "bus/pci/drivers/amdgpu", "drivers")
		n.emit("add", "module/amdgpu", "module")
	}
	n.module = s
	n.changed()
}

// probeAll first applies the requested memory modes, as the firmware does for all GPUs of a hive or for
// none (amdgpu_xgmi_request_nps_change). Then it probes every GPU. It returns the GPUs that are reset
// for their new mode. The caller holds n.mu.
func (n *Node) probeAll() (reset []*board) {
	faults := make(map[*board]Fault)
	for _, b := range n.boards {
		if !b.Chip.AMD() || b.vanished {
			continue
		}
		faults[b] = n.strike(OpLoad, b, "")
		if faults[b].Wrong {
			for _, member := range n.hive(b) {
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
		n.probe(b, f)
	}
	return reset
}

// reset simulates the reset of the boards for a new memory mode (need_reset_on_init,
// AMDGPU_GMC_INIT_RESET_NPS). The driver resets the whole hive before its load returns; here the
// reset ends after ResetLatency.
func (n *Node) reset(ctx context.Context, boards []*board) {
	if len(boards) == 0 {
		return
	}
	wait(ctx, n.opts.ResetLatency)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range boards {
		b.resetting = false
	}
}

// probe binds a GPU, or applies the fault of its probe. The caller holds n.mu.
func (n *Node) probe(b *board, f Fault) {
	switch {
	case f.Vanish:
		n.vanish(b)
	case f.Errno != 0:
		n.changed()
	case f.Hang > 0:
		n.bindLater(b, time.Duration(f.Hang))
	case f.Hang == 0:
		n.bind(b)
		n.came(b)
	}
}

// bindLater binds a GPU after the delay of its probe, unless the driver was unloaded meanwhile.
func (n *Node) bindLater(b *board, d time.Duration) {
	load := n.loads
	time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.module == live && n.loads == load && !b.vanished {
			n.bind(b)
			n.came(b)
		}
	})
}
