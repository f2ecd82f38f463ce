package nvidia

import (
	"context"
	"path/filepath"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// NotReady returns why the function is not ready. A host without the module is ready, so
// that its boot waits for nothing. A uevent announces a later load.
func (n *Node) NotReady(f gpu.Function) (lacks, hint string) {
	switch {
	case n.module().State() == "coming":
		return "the " + driver + " driver is still coming up", ""
	case f.Err != nil:
		hint, _ := n.Explain(f.Err)
		return f.Err.Error(), hint
	}
	return "", ""
}

// Progress implements [gpu.Inspector].
func (n *Node) Progress(gpus []partition.Address) (signs string, live bool) {
	return n.module().Progress(gpus, "driver")
}

// RelevantEvent reports whether the uevent is about the driver's module.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// PollFingerprint lists the MIG instances in /proc. The driver sends no event when instances
// change, and an event set of the library would hold the GPU. The text has only the ids,
// which mostly change with the instances.
func (n *Node) PollFingerprint() string {
	var b strings.Builder
	b.WriteString(n.module().State())
	// Constant patterns have no error.
	for _, pattern := range []string{"gpu*", "gpu*/mig", "gpu*/mig/gi*", "gpu*/mig/gi*/ci*"} {
		found, _ := filepath.Glob(n.proc("capabilities", pattern))
		for _, path := range found {
			rel, _ := filepath.Rel(n.proc("capabilities"), path)
			b.WriteString(" " + rel)
		}
	}
	return b.String()
}

// Library returns the name and version of the library, or why it is not used.
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
