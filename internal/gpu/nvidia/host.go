package nvidia

import (
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

const driver = "nvidia"

// host has the files of the driver.
type host struct{ gpu.Roots }

// module returns the driver's kernel module.
func (h host) module() gpu.Module { return h.Module(driver) }

// proc returns a path below /proc/driver/nvidia.
func (h host) proc(elem ...string) string {
	return filepath.Join(append([]string{h.Proc, "driver/nvidia"}, elem...)...)
}

// online reports whether the memory of a GPU is a NUMA node of the kernel, as with GH200. Its used memory
// then includes the page cache (nv-procfs.c, numa_status).
func (h host) online(a partition.Address) bool {
	text, err := os.ReadFile(h.proc("gpus", string(a), "numa_status"))
	return err == nil && strings.Contains(string(text), "online")
}

func (h host) subsystem(a partition.Address) (vendor, device uint16) {
	v, err := sysfs.Number(h.AttributePath(a, "subsystem_vendor"), 16)
	d, other := sysfs.Number(h.AttributePath(a, "subsystem_device"), 16)
	if err != nil || other != nil {
		return 0, 0
	}
	return uint16(v), uint16(d)
}
