package nvidia

import (
	"context"
	"path/filepath"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// Late tells what is not ready. A host without the module is ready as it is: its boot
// waits for nothing, and the kernel tells when a module comes.
func (n *Node) NotReady(f gpu.Function) (lacks, cure string) {
	switch {
	case n.module().State() == "coming":
		return "the " + driver + " driver is still coming up", ""
	case f.Err != nil:
		cure, _ := n.Explain(f.Err)
		return f.Err.Error(), cure
	}
	return "", ""
}

// Pulse is what changes first when a GPU comes up.
func (n *Node) Progress(gpus []partition.Address) (signs string, live bool) {
	return n.module().Progress(gpus, "driver")
}

// Concerns tells whether what the kernel says of a device (subsystem and path of a
// uevent) is of the driver's module.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// Glance is what a short look shows of MIG: the driver tells nobody when instances come
// and go, and a held event set of the library's would be a holder like any other. What
// they are is not seen; that they are others than before mostly is.
func (n *Node) PollFingerprint() string {
	var b strings.Builder
	b.WriteString(n.module().State())
	// The patterns are in order, and no other error is possible.
	for _, pattern := range []string{"gpu*", "gpu*/mig", "gpu*/mig/gi*", "gpu*/mig/gi*/ci*"} {
		found, _ := filepath.Glob(n.proc("capabilities", pattern))
		for _, path := range found {
			rel, _ := filepath.Rel(n.proc("capabilities"), path)
			b.WriteString(" " + rel)
		}
	}
	return b.String()
}

// Library names the library and its version, or says why it is not used.
func (n *Node) Library(ctx context.Context) (name, state string) {
	if n.program == "" || n.module().State() == "" {
		return "", ""
	}
	reply, err := n.call(ctx, nvml.Request{Do: nvml.Look})
	if err != nil {
		return "nvml", err.Error()
	}
	return "nvml", reply.NVML + ", " + reply.Library
}
