package amdgpu

import (
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Late tells what is not ready. The attributes of the modes appear in the middle of
// the driver's probing, the DRM device at its end, and the module is live when all
// of its GPUs are probed.
func (n *Node) NotReady(f gpu.Function) (lacks, cure string) {
	switch {
	case !isExpected(f):
	case f.Err != nil:
		return f.Err.Error(), ""
	case f.Driver == "" && !n.Loaded():
		return "the " + driver + " driver is not loaded", "Load the driver with `modprobe " + driver +
			"`; if it is not loaded at boot, see whether it is blacklisted in /etc/modprobe.d or on the kernel command line."
	case f.Driver == "":
		return gpu.NotBound, ""
	case f.Driver != driver: // given to a virtual machine, say
	case !f.DRM:
		return "it has no DRM device yet", ""
	case n.module().State() == "coming":
		return "the driver is still coming up", ""
	}
	return "", ""
}

// Pulse is what changes first when a GPU comes up.
func (n *Node) Progress(gpus []partition.Address) (signs string, live bool) {
	return n.module().Progress(gpus, "driver", "drm", computeFile)
}

// awaited tells whether f is a GPU that the driver may show modes for. Other
// AMD cards may have another driver, or none, for good.
func isExpected(f gpu.Function) bool {
	_, known := partition.LookupModel(partition.AMD, f.Device.Device)
	return known || f.Accelerator()
}
