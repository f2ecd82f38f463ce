package nvidia

import (
	"errors"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/linux/sysfs"
)

// displays is the module that shows the GPUs on displays.
const displays = "nvidia_drm"

// modeset reports whether nvidia_drm may hold the GPUs from within the kernel, where no
// process shows it: it does with its parameter modeset, and only root can read that.
func (n *Node) modeset() bool {
	if (gpu.Module{Sys: n.roots.Sys, Name: displays}).State() == "" {
		return false
	}
	set, err := sysfs.Read(n.sys("module", displays, "parameters/modeset"))
	return err != nil || set != "N"
}

// fromWithin adds nvidia_drm to an error that a GPU is in use, if it may be the holder.
func (n *Node) fromWithin(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != nvml.InUse || !n.modeset() {
		return err
	}
	named := *e
	named.Text += "; the kernel module " + displays + " may hold it (modeset is on)"
	named.Cure = "Unload the module with `modprobe -r " + displays + "`, or load it with modeset=0. "
	return &named
}
