package sim

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"dcm/internal/gpu/partition"
)

// These functions determine which errno the driver returns.

// parseCompute parses a write as amdgpu_gfx_set_compute_partition does. A prefix of the name is enough, in
// upper or lower case. Then it checks whether the mode fits the memory mode (gfx_v9_4_3:
// __aqua_vanjaram_is_valid_mode).
func parseCompute(c Chip, now partition.Memory, text string) (partition.Compute, error) {
	mode, ok := prefix(partition.ComputeModes(), text)
	if !ok || !slices.Contains(c.Fits(now), mode) {
		return "", syscall.EINVAL
	}
	return mode, nil
}

// parseMemory parses a write as amdgpu_gmc's current_memory_partition_store does. It accepts only the
// names of supported modes.
func parseMemory(c Chip, text string) (partition.Memory, error) {
	switch mode, ok := prefix(c.Memory, text); {
	case c.fixedMemory():
		return "", syscall.EOPNOTSUPP
	case !ok:
		return "", syscall.EINVAL
	default:
		return mode, nil
	}
}

func prefix[M ~string](modes []M, text string) (M, bool) {
	for _, m := range modes {
		if len(text) >= len(m) && strings.EqualFold(text[:len(m)], string(m)) {
			return m, true
		}
	}
	return "", false
}

// fixedMemory reports whether the memory mode cannot be changed. Then the driver does not create
// available_memory_partition (amdgpu_gmc_sysfs_init).
func (c Chip) fixedMemory() bool { return c.APU || c.Locked || len(c.Memory) < 2 }

// available returns the content of available_compute_partition.
func available(c Chip, now partition.Memory) string {
	if modes := c.Fits(now); len(modes) > 0 {
		return partition.List(modes)
	}
	return "Not supported"
}

// modeAtLoad returns the compute mode after a load of the driver: that of the module parameter if it fits
// the memory mode, otherwise the default of the memory mode, otherwise the first one that fits.
func modeAtLoad(c Chip, m partition.Memory, wanted partition.Compute) partition.Compute {
	fits := c.Fits(m)
	for _, mode := range []partition.Compute{wanted, m.AutoCompute()} {
		if slices.Contains(fits, mode) {
			return mode
		}
	}
	if len(fits) > 0 {
		return fits[0]
	}
	return m.AutoCompute()
}

// lockable returns why KFD cannot lock a GPU for a switch (kgd2kfd_check_and_lock_kfd): a process is
// attached to it or is being removed, or another switch of it is in progress. Kernels before 6.17 check
// the whole node.
func lockable(n *Node, b *board, now time.Time) error {
	if busy(n, b, now) || n.opts.NodeLock && slices.ContainsFunc(n.boards, func(other *board) bool { return busy(n, other, now) }) {
		return syscall.EBUSY
	}
	return nil
}

// unloadable checks the reference count of the module: each open device file has a reference. A process
// that is being removed has none.
func unloadable(n *Node) error {
	if held(n, func(h *Handle) bool { return !h.nvidia }) || slices.ContainsFunc(n.boards, func(b *board) bool { return b.switching }) {
		return syscall.EBUSY
	}
	return nil
}

// busy reports whether a process uses the GPU or did so a moment ago, or a switch is under way.
func busy(n *Node, b *board, now time.Time) bool {
	return b.switching || now.Before(b.settled) || held(n, func(h *Handle) bool {
		return h.board == b || h.board == nil && !h.nvidia && h.attachedTo(b)
	})
}
