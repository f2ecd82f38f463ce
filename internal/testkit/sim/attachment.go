package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"dcm/internal/gpu/partition"
)

// Allowance says which GPUs a process may use, as its device cgroup does: the simulated nodes are
// regular files, on which a real device cgroup has no effect. It goes into ctl/allow.
type Allowance struct {
	Unit string              `json:"unit,omitempty"` // processes in the cgroup of that name, "vllm@3.service"
	PID  int                 `json:"pid,omitempty"`  // or one process
	GPUs []partition.Address `json:"gpus"`           // empty: the rule is removed
}

// setAllowance sets which GPUs a process, or the processes of a unit, may use from now on. It has no
// effect on a /dev/kfd that is open already, as in the kernel.
func setAllowance(n *Node, a Allowance) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if (a.Unit == "") == (a.PID == 0) {
		return fmt.Errorf("a rule is for a unit or for a process: %w", syscall.EINVAL)
	}
	for _, address := range a.GPUs {
		if n.find(address) == nil {
			return fmt.Errorf("there is no GPU at %s: %w", address, syscall.EINVAL)
		}
	}
	n.allowed = slices.DeleteFunc(n.allowed, func(old Allowance) bool { return old.Unit == a.Unit && old.PID == a.PID })
	if len(a.GPUs) > 0 {
		n.allowed = append(n.allowed, a)
	}
	return nil
}

// lockNode sets whether KFD checks all GPUs before a switch of one, see [Options.NodeLock].
func lockNode(n *Node, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opts.NodeLock = on
}

// attachment has the GPUs to which an open /dev/kfd attaches its process. In the kernel the device
// cgroup at the first open decides (kfd_init_apertures). Here an [Allowance] decides. Without one,
// the process is attached to the GPUs whose DRM nodes it opens, before or after /dev/kfd; until it
// opens one, to every GPU.
type attachment struct {
	boards []*board // empty: all
	fixed  bool     // by an allowance
}

func (a *attachment) attachedTo(b *board) bool {
	return len(a.boards) == 0 || slices.Contains(a.boards, b)
}

// attach sets the attachment of a /dev/kfd that is about to be opened. n.mu is held.
func (h *Handle) attach(n *Node, cgroups string) {
	for _, rule := range n.allowed {
		if !rule.applies(h.PID, cgroups) {
			continue
		}
		h.fixed = true
		for _, address := range rule.GPUs {
			h.boards = append(h.boards, n.find(address))
		}
	}
	if h.fixed {
		return
	}
	for other := range n.handles {
		if other.PID == h.PID && other.board != nil && !other.nvidia {
			h.boards = append(h.boards, other.board)
		}
	}
}

// attachToOpened adds the GPU of an opened DRM node to the attachment of its process. n.mu is held.
func attachToOpened(n *Node, opened *Handle) {
	for h := range n.handles {
		if h.PID == opened.PID && h.board == nil && !h.nvidia && !h.fixed {
			h.boards = append(h.boards, opened.board)
		}
	}
}

// attached reports whether the process is attached to the GPU, or is said to have memory there.
// n.mu is held.
func attached(n *Node, pid int, b *board) bool {
	open := false
	for h := range n.handles {
		if h.PID == pid && h.board == nil && !h.nvidia {
			open = true
			if h.attachedTo(b) {
				return true
			}
		}
	}
	if !open {
		return true // a process that only uses memory, see [Using]
	}
	for t := range n.uses.vram {
		if t.pid == pid && t.board == b.index {
			return true
		}
	}
	return false
}

// cgroupsOf returns the text of a process's cgroups, "" if they are unknown. Each line ends with
// a path, "0::/system.slice/a.service".
func cgroupsOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	return string(text)
}

// applies reports whether the rule is for a process with these cgroups.
func (a Allowance) applies(pid int, cgroups string) bool {
	if a.Unit == "" {
		return a.PID == pid
	}
	for line := range strings.Lines(cgroups) {
		if slices.Contains(strings.Split(strings.TrimSuffix(line, "\n"), "/"), a.Unit) {
			return true
		}
	}
	return false
}
