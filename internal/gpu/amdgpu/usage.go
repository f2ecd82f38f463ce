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

// Usage looks who uses the GPUs, see [openfiles.Look].
func (n *Node) Usage(ctx context.Context) (gpu.Usage, error) {
	return openfiles.FindUsage(ctx, n.roots.Proc, n.deviceNodes, n.limits, n.addDriverUsage)
}

// tally adds what the driver tells to what was seen.
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

// attached adds the render nodes of partitions in which processes have memory without
// having one open: KFD keeps the file of a node that a process has closed
// (kfd_chardev.c: kfd_ioctl_acquire_vm), and what the process has there is in use.
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
			continue // one that is hidden from here is for others to tell of
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

// Tally is the module's use count, with the KFD's list.
func (n *Node) UsageFingerprint() string {
	count, modules, ok := n.module().UseCount()
	compute, _ := sysfs.Numbers(n.sys("class/kfd/kfd/proc"))
	slices.Sort(compute)
	return fmt.Sprint(count, modules, ok, compute)
}
