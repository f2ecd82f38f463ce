package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/linux/sysfs"
)

// usageReader finds the processes that use the GPUs. It is a [gpu.UsageReader].
type usageReader struct {
	roots  gpu.Roots
	kernel gpu.Module
	kfd    kfd
	limits openfiles.Limits // of the scan of open files
	check  busyCheck
}

// Usage implements [gpu.UsageReader].
func (n *usageReader) Usage(ctx context.Context) (gpu.VendorUsage, error) {
	return openfiles.Search{Proc: n.roots.Proc, Nodes: n.deviceNodes, Module: n.kernel, Limits: n.limits, Attribute: n.attribute}.Usage(ctx)
}

// holders returns the processes, other than this one, that have a GPU open.
func (n *usageReader) holders(ctx context.Context) ([]gpu.Holder, error) {
	u, err := n.Usage(ctx)
	return u.Holders, err
}

// UsageFingerprint returns the module's use count and KFD's processes.
func (n *usageReader) UsageFingerprint() string {
	count, modules, ok := n.kernel.UseCount()
	compute, _ := sysfs.Numbers(n.kfd.processes())
	slices.Sort(compute)
	return fmt.Sprint(count, modules, ok, compute)
}

// attribute adds the processes that KFD lists, and returns those that do not exist.
func (n *usageReader) attribute(s *openfiles.Scan) (orphans []int, err error) {
	compute, err := sysfs.Numbers(n.kfd.processes())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var closed []int
	for _, pid := range compute {
		switch {
		case pid == os.Getpid():
		case s.Exists(pid):
			s.Attribute(pid, kfdDevice)
			if s.HasOnly(pid, kfdDevice) {
				closed = append(closed, pid)
			}
		default:
			orphans = append(orphans, pid)
		}
	}
	return orphans, n.attributeMemoryUsers(s, closed)
}

const kfdDevice = "/dev/kfd"

// attributeMemoryUsers adds the render nodes of partitions where processes have memory with
// the node closed. KFD keeps the file of a closed node (kfd_chardev.c:
// kfd_ioctl_acquire_vm), so the partition is in use.
func (n *usageReader) attributeMemoryUsers(s *openfiles.Scan, pids []int) error {
	memory := make(map[string][]gpu.Process)
	for _, pid := range pids {
		err := n.kfd.addMemory(memory, pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has ended
			return err
		}
	}
	if len(memory) == 0 {
		return nil
	}
	dir, names, err := sysfs.ListDir(n.kfd.topology())
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range names {
		id, err := dir.Read(filepath.Join(name, "gpu_id"))
		if err != nil || len(memory[id]) == 0 {
			continue // hidden nodes are reported elsewhere
		}
		node, err := readNode(dir, name)
		if err != nil {
			return err
		}
		if node.id == nodeGone {
			continue
		}
		for _, process := range memory[id] {
			s.Attribute(process.PID, gpu.RenderNode(int(node.minor)))
		}
	}
	return nil
}
