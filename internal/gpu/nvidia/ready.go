package nvidia

import (
	"context"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// NotReady returns why the function is not ready. A host without the module is ready, so
// that its boot waits for nothing. A uevent announces a later load.
func (n *inventory) NotReady(f gpu.Function) (reason, hint string) {
	switch {
	case n.host.module().State() == "coming":
		return "the " + driver + " driver is still loading", ""
	case f.Err != nil:
		hint, _ := explain(f.Err)
		return f.Err.Error(), hint
	}
	return "", ""
}

// Progress implements [gpu.Inspector].
func (n *inventory) Progress(gpus []partition.Address) (fingerprint string, loaded bool) {
	return n.host.module().Progress(gpus, "driver")
}

// RelevantEvent reports whether the uevent is about the driver's module.
func (n *inventory) RelevantEvent(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// library is the Library of [gpu.Vendor]: it returns the name and version of the library, or why it is not used.
func (n *inventory) library(ctx context.Context) (name, state string) {
	if n.client.program == "" || n.host.module().State() == "" {
		return "", ""
	}
	reply, err := n.client.call(ctx, nvml.Request{Do: nvml.Look})
	if err != nil {
		return "nvml", err.Error()
	}
	return "nvml", reply.NVML + ", " + reply.Library
}
