package nvidia

import (
	"errors"

	"dcm/internal/gpu/nvml"
	"dcm/internal/linux/sysfs"
)

// drmModule is the kernel module that displays use.
const drmModule = "nvidia_drm"

// drmMayHold reports whether nvidia_drm may hold the GPUs inside the kernel, where no
// process shows it. It does if its parameter modeset is on, which only root can read.
func (h host) drmMayHold() bool {
	if h.Module(drmModule).State() == "" {
		return false
	}
	set, err := sysfs.Read(h.SysPath("module", drmModule, "parameters/modeset"))
	return err != nil || set != "N"
}

// addKernelHolder adds nvidia_drm to an error about a GPU in use, if it may be the holder.
func (h host) addKernelHolder(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != nvml.InUse || !h.drmMayHold() {
		return err
	}
	named := *e
	named.Text += "; the kernel module " + drmModule + " may hold it (modeset is on)"
	named.Hint = "Unload the module with `modprobe -r " + drmModule + "`, or load it with modeset=0. "
	return &named
}
