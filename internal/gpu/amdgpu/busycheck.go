package amdgpu

import (
	"context"
	"slices"
	"strings"
	"sync"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// busyCheck stores what the driver checks before it switches the compute mode of one GPU, for
// one load of the driver.
//
// Since Linux 6.17 (commit 96f75f959446) kgd2kfd_check_and_lock_kfd refuses a switch only if a KFD
// process is attached to this GPU. Before, any KFD process made it fail with EBUSY. AMD's own
// driver packages have the change at other versions, so dcm uses only the result of a switch as
// evidence.
type busyCheck struct{ facts driverFacts }

const busyCheckFact = "busy-check"

// read returns the check of this load of the driver.
func (c busyCheck) read() gpu.BusyCheck {
	check, _ := storedFact[gpu.BusyCheck](c.facts, busyCheckFact)
	if check != gpu.BusyCheckGPU && check != gpu.BusyCheckNode {
		return gpu.BusyCheckUnknown
	}
	return check
}

// store records evidence.
func (c busyCheck) store(check gpu.BusyCheck) {
	// If the file cannot be written, the next switch determines the check again.
	_ = storeFact(c.facts, busyCheckFact, check)
}

// checkEvidence derives the [busyCheck] from the results of compute switches.
type checkEvidence struct {
	usage *usageReader
	mu    sync.Mutex // one result at a time, since several GPUs are switched concurrently
}

// switchEvidence is one compute switch with the KFD processes at its start.
type switchEvidence struct {
	*checkEvidence
	gpu    partition.Address
	others []int // PIDs of KFD processes that are attached only to other GPUs
}

// begin reads the KFD processes before a switch of the GPU. If the result of the switch can be no
// evidence, others is empty.
func (e *checkEvidence) begin(a partition.Address) switchEvidence {
	return switchEvidence{e, a, e.elsewhere(a)}
}

// elsewhere returns the KFD processes that are attached only to other GPUs. The result is empty if
// a process is, or may be, attached to GPU a.
func (e *checkEvidence) elsewhere(a partition.Address) []int {
	listed, err := e.usage.kfd.attachments(e.usage.roots)
	if err != nil {
		return nil
	}
	var out []int
	for pid, gpus := range listed {
		if len(gpus) == 0 || slices.Contains(gpus, a) {
			return nil
		}
		out = append(out, pid)
	}
	return out
}

// succeeded records that the switch succeeded. If a process was attached to another GPU during the
// whole switch, this shows that the driver checks only for processes of the switched GPU.
func (s switchEvidence) succeeded() {
	if len(s.others) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usage.check.read() == gpu.BusyCheckGPU {
		return
	}
	if after := s.elsewhere(s.gpu); slices.ContainsFunc(s.others, func(pid int) bool { return slices.Contains(after, pid) }) {
		s.usage.check.store(gpu.BusyCheckGPU)
	}
}

// failed records that the switch failed with EBUSY until the end of its retries. If no process
// uses the GPU and one is attached to another GPU, the driver checks all GPUs.
func (s switchEvidence) failed(ctx context.Context) {
	if len(s.others) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usage.check.read() != gpu.BusyCheckUnknown || len(s.elsewhere(s.gpu)) == 0 {
		return
	}
	u, err := s.usage.Usage(ctx)
	if err == nil {
		err = s.usage.attach(u.Holders)
	}
	if err != nil || slices.ContainsFunc(u.Uninspected, func(p gpu.Uninspected) bool { return p.TimedOut }) {
		return
	}
	nodes, err := s.usage.nodesOf(s.gpu)
	if err != nil {
		return
	}
	for _, h := range u.Holders {
		if slices.Contains(h.Devices, kfdDevice) && (len(h.Attached) == 0 || slices.Contains(h.Attached, s.gpu)) ||
			slices.ContainsFunc(h.Devices, func(node string) bool { return slices.Contains(nodes, node) }) {
			return
		}
	}
	s.usage.check.store(gpu.BusyCheckNode)
}

// onNode reports whether the driver checks all GPUs of the node.
func (e *checkEvidence) onNode() bool { return e.usage.check.read() == gpu.BusyCheckNode }

// nodesOf returns the DRM nodes of the GPU and of its active partitions.
func (n *usageReader) nodesOf(a partition.Address) ([]string, error) {
	names, err := sysfs.Names(n.roots.AttributePath(a, "drm"))
	if err != nil {
		return nil, err
	}
	parts, err := n.kfd.nodes()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if strings.HasPrefix(name, "card") || strings.HasPrefix(name, "renderD") {
			out = append(out, "/dev/dri/"+name)
		}
	}
	for _, p := range parts {
		if p.minor > 0 && p.owner(n.roots) == a {
			out = append(out, gpu.RenderNode(int(p.minor)))
		}
	}
	return out, nil
}
