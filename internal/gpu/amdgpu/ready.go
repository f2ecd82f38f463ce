package amdgpu

import (
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// NotReady implements [gpu.Inspector]. During the driver's probe, the mode files appear
// first and the DRM device last. The module is live when all its GPUs are probed.
func (n *Node) NotReady(f gpu.Function) (lacks, hint string) {
	switch {
	case !isExpected(f):
	case f.Err != nil:
		return f.Err.Error(), ""
	case f.Driver == "" && !n.Loaded():
		return "the " + driver + " driver is not loaded", "Load the driver with `modprobe " + driver +
			"`; if it is not loaded at boot, see whether it is blacklisted in /etc/modprobe.d or on the kernel command line."
	case f.Driver == "":
		return gpu.NotBound, ""
	case f.Driver != driver: // for example for a virtual machine
	case !f.DRM:
		return "it has no DRM device yet", ""
	case n.module().State() == "coming":
		return "the driver is still coming up", ""
	}
	return "", ""
}

// Progress implements [gpu.Inspector].
func (n *Node) Progress(gpus []partition.Address) (signs string, live bool) {
	return n.module().Progress(gpus, "driver", "drm", computeFile)
}

// isExpected reports whether the driver may show modes for f. Other AMD cards may have
// another driver or none.
func isExpected(f gpu.Function) bool {
	_, known := partition.LookupModel(partition.AMD, f.Device.Device)
	return known || f.Accelerator()
}
