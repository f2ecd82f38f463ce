package nvidia

import (
	"errors"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/linux/sysfs"
)

// displays is the module that shows the GPUs on displays.
const drmModule = "nvidia_drm"

// modeset reports whether nvidia_drm may hold the GPUs from within the kernel, where no
// process shows it: it does with its parameter modeset, and only root can read that.
func (n *Node) drmMayHold() bool {
	if (gpu.Module{Sys: n.roots.Sys, Name: drmModule}).State() == "" {
		return false
	}
	set, err := sysfs.Read(n.sys("module", drmModule, "parameters/modeset"))
	return err != nil || set != "N"
}

// fromWithin adds nvidia_drm to an error that a GPU is in use, if it may be the holder.
func (n *Node) addKernelHolder(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != nvml.InUse || !n.drmMayHold() {
		return err
	}
	named := *e
	named.Text += "; the kernel module " + drmModule + " may hold it (modeset is on)"
	named.Hint = "Unload the module with `modprobe -r " + drmModule + "`, or load it with modeset=0. "
	return &named
}
