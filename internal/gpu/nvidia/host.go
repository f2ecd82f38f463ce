package nvidia

import (
	"path/filepath"

	"dcm/internal/gpu"
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
