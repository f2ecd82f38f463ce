package sim

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dcm/internal/gpu/partition"
)

// The names of the partition files below a GPU's directory.
const (
	computeFile = "current_compute_partition"
	memoryFile  = "current_memory_partition"
	configFile  = "xcp_config"

	allocationFile = "compute_partition_mem_alloc_mode"
)

// SetCompute is a write to current_compute_partition. A switch cannot be interrupted.
func (n *Node) SetCompute(ctx context.Context, a partition.Address, text string) error {
	b, err := countWrite(n, a, computeFile)
	if err != nil {
		return err
	}
	fault, err := meet(ctx, n, OpCompute, b, computeFile)
	if err != nil {
		return err
	}
	mode, err := beginSwitch(n, b, text)
	if err != nil || mode == "" {
		return err
	}
	wait(context.WithoutCancel(ctx), n.opts.SwitchLatency, nil)
	return endSwitch(n, b, mode, fault)
}

// beginSwitch locks the GPU for a switch. It returns the new mode, or "" if the GPU already has it: then
// amdgpu_xcp_switch_partition_mode returns early even if the GPU is busy.
func beginSwitch(n *Node, b *board, text string) (partition.Compute, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.bound {
		return "", syscall.ENODEV
	}
	mode, err := parseCompute(b.Chip, b.memory, text)
	if err != nil || mode == b.compute && !b.switching {
		return "", err
	}
	if err := lockable(n, b, time.Now()); err != nil {
		return "", err
	}
	b.switching = true
	return mode, nil
}

func endSwitch(n *Node, b *board, mode partition.Compute, fault Fault) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	b.switching = false
	if !b.bound {
		return syscall.ENODEV
	}
	if !fault.Wrong {
		b.compute, b.config = mode, mode
		b.resetAllocation()
		b.switches++
		n.renumbered()
	}
	return fault.late()
}

// SetAllocation is a write to compute_partition_mem_alloc_mode
// (amdgpu_gfx_set_compute_partition_mem_alloc_mode, Linux 7.1). It takes no lock: neither a process
// nor a switch makes it fail. A prefix of the name's length is enough, in upper or lower case.
func (n *Node) SetAllocation(ctx context.Context, a partition.Address, text string) error {
	b, err := countWrite(n, a, allocationFile)
	if err != nil {
		return err
	}
	fault, err := meet(ctx, n, OpAllocation, b, allocationFile)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.bound {
		return syscall.ENODEV
	}
	mode, ok := prefix(partition.Allocations(), text)
	if !ok {
		return syscall.EINVAL
	}
	if !fault.Wrong {
		b.allocation = mode
	}
	return fault.late()
}

// SetMemory is a write to current_memory_partition. It records a request for the whole hive. A write of
// the current mode returns early and does not change an earlier request.
func (n *Node) SetMemory(ctx context.Context, a partition.Address, text string) error {
	b, err := countWrite(n, a, memoryFile)
	if err != nil {
		return err
	}
	fault, err := meet(ctx, n, OpMemory, b, memoryFile)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.bound {
		return syscall.ENODEV
	}
	mode, err := parseMemory(b.Chip, text)
	if err != nil || mode == b.memory {
		return err
	}
	if !fault.Wrong {
		for _, member := range hiveOf(n, b) {
			member.pending = mode
		}
	}
	return fault.late()
}

// setConfig is a write to compute_partition_config/xcp_config. It selects the mode that the files next
// to it describe, and does not switch.
func setConfig(_ context.Context, n *Node, a partition.Address, text string) error {
	b, err := countWrite(n, a, configFile)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	mode, ok := prefix(partition.ComputeModes(), text)
	if !ok || !slices.Contains(b.Chip.computeModes(), mode) {
		return syscall.EINVAL
	}
	b.config = mode
	return nil
}

// countWrite counts a write to a file of the GPU.
func countWrite(n *Node, a partition.Address, file string) (*board, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(a)
	if b == nil || !b.bound || b.Chip.XCC == 0 {
		return nil, syscall.ENODEV
	}
	if b.resetting {
		return nil, syscall.EPERM
	}
	b.writes[file]++
	return b, nil
}

// readMode is a read of a partition file. It first applies a fault, which may hang, and only then
// determines the content.
func readMode(ctx context.Context, n *Node, b *board, file string, content func() string) (string, error) {
	fault, err := meet(ctx, n, OpRead, b, file)
	if err == nil && b.recorded != nil && b.recorded.errors[file] != 0 {
		err = syscall.Errno(b.recorded.errors[file])
	}
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.bound {
		return "", syscall.ENODEV
	}
	if b.resetting {
		return "", syscall.EPERM
	}
	text := content()
	if fault.Unknown {
		text = "UNKNOWN"
	}
	if fault.Wrong {
		text = another(text)
	}
	if fault.Short {
		return text[:len(text)/2], nil
	}
	return text + "\n", fault.late()
}

// another returns a valid content that differs from the true one.
func another(text string) string {
	for _, lie := range []string{string(partition.DPX), string(partition.SPX)} {
		if _, compute := prefix(partition.ComputeModes(), text); compute && text != lie {
			return lie
		}
	}
	if text != string(partition.NPS2) {
		return string(partition.NPS2)
	}
	return string(partition.NPS1)
}

// cleanerFile and isolationFile are attributes of GPUs whose firmware supports the cleaner shader
// (amdgpu_gfx_sysfs_isolation_shader_init, patches of August 2024). Later kernels have the second one on each GPU.
const (
	cleanerFile   = "run_cleaner_shader"
	isolationFile = "enforce_isolation"
)

// maxIsolation is the largest value of enforce_isolation. The first kernels with the file accept 0 and 1.
const maxIsolation = 3

// Clean is a write to run_cleaner_shader (amdgpu_gfx_set_run_cleaner_shader). The text is the number of a
// partition, with the prefixes of C. Neither a process nor a switch makes it fail: the shader waits for the GPU.
func (n *Node) Clean(ctx context.Context, a partition.Address, text string) error {
	b, err := countWrite(n, a, cleanerFile)
	if err != nil {
		return err
	}
	fault, err := meet(ctx, n, OpClean, b, cleanerFile)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.bound {
		return syscall.ENODEV
	}
	part, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 0, 64)
	if err != nil || part < 0 || part >= int64(b.partitions()) {
		return syscall.EINVAL
	}
	if !fault.Wrong {
		b.cleaned[part]++
	}
	return fault.late()
}

// SetIsolation is a write to enforce_isolation (amdgpu_gfx_set_enforce_isolation): a value for each partition,
// separated by one space.
func (n *Node) SetIsolation(ctx context.Context, a partition.Address, text string) error {
	b, err := countWrite(n, a, isolationFile)
	if err != nil {
		return err
	}
	fault, err := meet(ctx, n, OpIsolation, b, isolationFile)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.bound {
		return syscall.ENODEV
	}
	values := strings.Fields(text)
	if len(values) < b.partitions() {
		return syscall.EINVAL
	}
	var next [xcps]int
	for i, v := range values[:b.partitions()] {
		number, err := strconv.Atoi(v)
		if err != nil || number < 0 || number > maxIsolation {
			return syscall.EINVAL
		}
		next[i] = number
	}
	if !fault.Wrong {
		copy(b.isolation[:], next[:b.partitions()])
	}
	return fault.late()
}
