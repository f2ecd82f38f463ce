package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"dcm/internal/gpu"
	"dcm/internal/linux/sysfs"
)

// meter measures the usage of partitions. Each figure makes the driver query the firmware or walk a
// process's memory, so the usage is measured on request only, never periodically.
type meter struct {
	roots gpu.Roots
	kfd   kfd
}

// measure is the Measure of [gpu.Vendor].
func (n *meter) measure(ctx context.Context, devices []*gpu.Device) ([]gpu.PartitionUsage, error) {
	uses, err := sysfs.Within(ctx, func() ([]gpu.PartitionUsage, error) {
		memory, unlisted := n.kfd.memoryUsers()
		var uses []gpu.PartitionUsage
		for _, d := range devices {
			uses = append(uses, n.measureGPU(d, memory, unlisted)...)
		}
		return uses, nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot measure the usage of the GPUs: %w", err)
	}
	return uses, nil
}

// measureGPU measures the partitions of one GPU.
func (n *meter) measureGPU(d *gpu.Device, memory map[string][]gpu.Process, unlisted error) []gpu.PartitionUsage {
	var tables []byte // gpu_metrics, read for the first partition without xcp_metrics
	var unread error
	out := make([]gpu.PartitionUsage, len(d.Parts))
	for i, p := range d.Parts {
		u := &out[i]
		u.GPU, u.Index = d.Address, p.Index
		n.readMemoryUsage(u, d, p, memory, unlisted)
		a, err := n.readXCPActivity(p)
		if errors.Is(err, fs.ErrNotExist) {
			if tables == nil && unread == nil {
				tables, unread = sysfs.Bytes(n.roots.AttributePath(d.Address, "gpu_metrics"))
			}
			if err = unread; err == nil {
				a, err = gpuActivity(tables, p.Index, len(d.Parts))
			}
		}
		switch {
		case err == nil:
			a.fill(u)
		case errors.Is(err, fs.ErrNotExist):
			u.NoBusyReason = "the driver does not report it for partitions"
		default:
			u.NoBusyReason = fmt.Sprintf("unusable report of the driver: %v", err)
		}
		if u.NoBusyReason != "" && len(d.Parts) == 1 {
			n.readGPUBusy(u, d)
		}
	}
	return out
}

// readXCPActivity reads the table of the partition, which is below its DRM device
// (amdgpu_xcp.c).
func (n *meter) readXCPActivity(p gpu.Part) (activity, error) {
	data, err := sysfs.Bytes(n.roots.SysPath("class/drm", filepath.Base(p.RenderNode()), "device/xcp/xcp_metrics"))
	if err != nil {
		return activity{}, err
	}
	return xcpActivity(data)
}

// readGPUBusy sets the busy time of a GPU with one partition.
func (n *meter) readGPUBusy(u *gpu.PartitionUsage, d *gpu.Device) {
	if percent, err := sysfs.Number(n.roots.AttributePath(d.Address, "gpu_busy_percent"), 8); err == nil && percent <= 100 {
		u.Busy, u.NoBusyReason = float64(percent), ""
	}
}

// readMemoryUsage sets the memory in use. With one partition it is that of the GPU, which
// includes the driver's own. Otherwise it is the sum over KFD's processes.
func (n *meter) readMemoryUsage(u *gpu.PartitionUsage, d *gpu.Device, p gpu.Part, memory map[string][]gpu.Process, unlisted error) {
	u.Processes = memory[p.ID]
	for _, process := range u.Processes {
		u.Bytes += process.Bytes
	}
	if len(d.Parts) == 1 {
		// Memory of an APU's processes is host memory, which does not count here.
		total, _ := sysfs.Number(n.roots.AttributePath(d.Address, "mem_info_vram_total"), 64)
		if all, err := sysfs.Number(n.roots.AttributePath(d.Address, "mem_info_vram_used"), 64); err == nil && total >= p.Bytes {
			u.Bytes = all
			return
		}
	}
	switch {
	case unlisted != nil:
		u.NoBytesReason = unlisted.Error()
	case p.ID == "" || p.ID == "0":
		u.NoBytesReason, u.Processes = "the partition is hidden from this process", nil
	}
}
