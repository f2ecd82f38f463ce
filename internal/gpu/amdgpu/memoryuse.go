package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/procstat"
	"dcm/internal/linux/sysfs"
)

// memoryReader reads the memory use of whole GPUs. Its reads of sysfs return counters of the kernel: they
// cause no work in the firmware (amdgpu_vram_mgr.c, kfd_process.c).
type memoryReader struct {
	roots   gpu.Roots
	kfd     kfd
	holders func(context.Context) ([]gpu.Holder, error) // the processes with a GPU open
}

// read is the MemoryUse of [gpu.Vendor].
func (r *memoryReader) read(ctx context.Context, gpus []partition.Address) ([]gpu.MemoryUse, error) {
	return sysfs.Within(ctx, func() ([]gpu.MemoryUse, error) {
		out := r.used(gpus)
		users, err := r.users()
		if err != nil {
			return nil, err
		}
		for i := range out {
			users.addTo(&out[i])
		}
		if !slices.ContainsFunc(out, func(m gpu.MemoryUse) bool { return m.Held() > 0 }) {
			return out, nil
		}
		// The scan for processes that use a GPU without KFD is slow.
		holders, err := r.holders(ctx)
		if err != nil {
			return nil, err
		}
		if err := users.addGraphics(r.roots, holders); err != nil {
			return nil, err
		}
		out = r.used(gpus)
		for i := range out {
			users.addTo(&out[i])
		}
		return out, nil
	})
}

// used returns the memory of the GPUs that the driver reports.
func (r *memoryReader) used(gpus []partition.Address) []gpu.MemoryUse {
	var out []gpu.MemoryUse
	for _, a := range gpus {
		total, err := sysfs.Number(r.roots.AttributePath(a, "mem_info_vram_total"), 64)
		used, unread := sysfs.Number(r.roots.AttributePath(a, "mem_info_vram_used"), 64)
		if err == nil && unread == nil {
			out = append(out, gpu.MemoryUse{GPU: a, Total: total, Used: used})
		}
	}
	return out
}

// memoryUsers is the memory of each process in bytes, by GPU and PID.
type memoryUsers map[partition.Address]map[int]uint64

// addTo adds the memory of the processes to the use of their GPU.
func (u memoryUsers) addTo(m *gpu.MemoryUse) {
	m.Visible = 0
	for _, bytes := range u[m.GPU] {
		m.Visible, m.Busy = m.Visible+bytes, true
	}
}

func (u memoryUsers) add(a partition.Address, pid int, bytes uint64) {
	if u[a] == nil {
		u[a] = make(map[int]uint64)
	}
	u[a][pid] += bytes
}

// users returns the memory of the processes in KFD that have not ended. A process whose memory a killed
// thread keeps can remain in KFD alone.
func (r *memoryReader) users() (memoryUsers, error) {
	out := make(memoryUsers)
	if pids, err := sysfs.Numbers(r.kfd.processes()); errors.Is(err, fs.ErrNotExist) || err == nil && len(pids) == 0 {
		return out, nil
	}
	byNode, err := r.kfd.memoryUsers()
	if err != nil || len(byNode) == 0 {
		return out, err
	}
	owners, err := r.kfd.owners(r.roots)
	if err != nil {
		return nil, err
	}
	for id, list := range byNode {
		owner := owners.byID[id]
		if owner == "" {
			return nil, fmt.Errorf("cannot find the GPU of the KFD node with gpu_id %s", id)
		}
		for _, process := range list {
			if !procstat.Ended(filepath.Join(r.roots.Proc, strconv.Itoa(process.PID))) {
				out.add(owner, process.PID, process.Bytes)
			}
		}
	}
	return out, nil
}

// addGraphics adds the memory of processes that use a GPU through its DRM nodes, for example with Vulkan,
// which KFD does not count. For a process in KFD the larger of both amounts counts, since the counters of
// the DRM file include the memory of KFD.
func (u memoryUsers) addGraphics(roots gpu.Roots, holders []gpu.Holder) error {
	for _, h := range holders {
		own, err := drmMemory(filepath.Join(roots.Proc, strconv.Itoa(h.PID), "fdinfo"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot read the memory of process %d: %w", h.PID, err)
		}
		for a, bytes := range own {
			if bytes > u[a][h.PID] {
				u.add(a, h.PID, bytes-u[a][h.PID])
			}
		}
	}
	return nil
}

// drmMemory returns the memory that a process has allocated through DRM files, by GPU
// (Documentation/gpu/drm-usage-stats.rst). Several file descriptors can be of one client.
func drmMemory(fdinfo string) (map[partition.Address]uint64, error) {
	names, err := sysfs.Names(fdinfo)
	if err != nil {
		return nil, err
	}
	clients := make(map[partition.Address]map[string]uint64)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(fdinfo, name))
		if err != nil || !strings.Contains(string(text), "drm-pdev:") {
			continue // it was closed, or is no DRM file
		}
		info := parseFDInfo(string(text))
		a := partition.Address(info["drm-pdev"])
		if clients[a] == nil {
			clients[a] = make(map[string]uint64)
		}
		clients[a][info["drm-client-id"]] = max(drmSize(info["drm-memory-vram"]), drmSize(info["drm-resident-vram"]))
	}
	out := make(map[partition.Address]uint64)
	for a, list := range clients {
		for bytes := range maps.Values(list) {
			out[a] += bytes
		}
	}
	return out, nil
}

// parseFDInfo parses "key: value" lines.
func parseFDInfo(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		out[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return out
}

// drmSize parses "2048 KiB", "3 MiB" or a number of bytes; 0 for other text.
func drmSize(text string) uint64 {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	factor := map[string]uint64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
	if err != nil || factor != 0 && n > 1<<63/factor {
		return 0
	}
	return n * factor
}
