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

// Usage returns the processes that use the GPUs, see [openfiles.FindUsage].
func (n *Node) Usage(ctx context.Context) (gpu.Usage, error) {
	return openfiles.FindUsage(ctx, n.roots.Proc, n.deviceNodes, n.limits, n.addDriverUsage)
}

// addDriverUsage adds what the driver reports.
func (n *Node) addDriverUsage(s *openfiles.Scan, u *gpu.Usage) error {
	compute, err := sysfs.Numbers(n.sys("class/kfd/kfd/proc"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.Orphans = nil
	var closed []int
	for _, pid := range compute {
		switch {
		case pid == os.Getpid():
		case s.Seen(pid):
			s.Attribute(pid, kfd)
			if s.HasOnly(pid, kfd) {
				closed = append(closed, pid)
			}
		default:
			u.Orphans = append(u.Orphans, pid)
		}
	}
	if err := n.attributeMemoryUsers(s, closed); err != nil {
		return err
	}
	u.Count, u.Modules, u.Counted = n.module().UseCount()
	u.Accounted = s.Weight()
	return nil
}

const kfd = "/dev/kfd"

// attributeMemoryUsers adds the render nodes of partitions where processes have memory with
// the node closed. KFD keeps the file of a closed node (kfd_chardev.c:
// kfd_ioctl_acquire_vm), so the partition is in use.
func (n *Node) attributeMemoryUsers(s *openfiles.Scan, pids []int) error {
	memory := make(map[string][]gpu.Process)
	for _, pid := range pids {
		err := n.addProcessMemory(memory, n.sys("class/kfd/kfd/proc"), pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has ended
			return err
		}
	}
	if len(memory) == 0 {
		return nil
	}
	dir, names, err := sysfs.ListDir(n.topologyPath())
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

func (n *Node) module() gpu.Module { return gpu.Module{Sys: n.roots.Sys, Name: driver} }

// UsageFingerprint returns the module's use count and KFD's processes.
func (n *Node) UsageFingerprint() string {
	count, modules, ok := n.module().UseCount()
	compute, _ := sysfs.Numbers(n.sys("class/kfd/kfd/proc"))
	slices.Sort(compute)
	return fmt.Sprint(count, modules, ok, compute)
}
