package sim

import (
	"slices"
	"syscall"
	"time"

	"dcm/internal/gpu/partition"
)

// Handle is an open device file.
type Handle struct {
	PID    int
	Device string // "kfd", "dri/renderD128", "nvidia0"
	board  *board // nil for a device of a driver as a whole
	nvidia bool   // a device of nvidia, not of amdgpu
	node   *Node

	attachment     // of /dev/kfd
	instance   int // GPU instance whose capability is open, or noInstance
}

// noInstance is the instance of a handle that is of no capability of a GPU instance.
const noInstance = -1

// openKFD is an open of /dev/kfd, which makes the process one of KFD's and attaches it to the
// GPUs that it may use. KFD refuses it while one of these is locked for a switch, in older
// kernels while any is (kfd_create_process).
func openKFD(n *Node, pid int) (*Handle, error) {
	n.mu.Lock()
	limited := len(n.allowed) > 0
	n.mu.Unlock()
	cgroups := ""
	if limited {
		cgroups = cgroupsOf(pid)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.module != live {
		return nil, syscall.ENOENT
	}
	h := &Handle{PID: pid, Device: "kfd", instance: noInstance}
	h.attach(n, cgroups)
	if slices.ContainsFunc(n.boards, func(b *board) bool { return b.switching && (n.opts.NodeLock || h.attachedTo(b)) }) {
		return nil, syscall.EINVAL
	}
	return addHandle(n, h), nil
}

// OpenKFD is an open of /dev/kfd by a process. The caller closes the handle.
func (n *Node) OpenKFD(pid int) (*Handle, error) { return openKFD(n, pid) }

// OpenRender is an open of the render node of a partition by a process. The caller closes the handle.
func (n *Node) OpenRender(a partition.Address, part, pid int) (*Handle, error) {
	n.mu.Lock()
	b := n.find(a)
	n.mu.Unlock()
	if b == nil {
		return nil, syscall.ENOENT
	}
	for _, m := range b.minors {
		if m.render && m.partition == part {
			return openDRM(n, b, m, pid)
		}
	}
	return nil, syscall.ENOENT
}

// openDRM opens a device below /dev/dri. The render node of an inactive partition exists, but cannot
// be opened (amdgpu_xcp_open_device).
func openDRM(n *Node, b *board, m minor, pid int) (*Handle, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !b.bound || !registered(n, b):
		return nil, syscall.ENODEV
	case m.render && b.Chip.XCC > 0 && m.partition >= b.partitions():
		return nil, syscall.ENOENT
	}
	h := addHandle(n, &Handle{PID: pid, Device: "dri/" + m.name, board: b, nvidia: b.Chip.NVIDIA(), instance: noInstance})
	if h.nvidia {
		countMIG(n, b)
	} else {
		attachToOpened(n, h)
	}
	return h, nil
}

// addHandle counts the handle, unless its device is of another driver, which does not keep amdgpu busy. The
// caller holds n.mu.
func addHandle(n *Node, h *Handle) *Handle {
	h.node = n
	if h.board == nil || h.board.Chip.AMD() || h.nvidia {
		n.handles[h] = true
	}
	return h
}

// Close is the last close of the open file. The GPU stays busy for a moment, since KFD removes a
// process asynchronously.
func (h *Handle) Close() {
	n := h.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.handles[h] {
		return
	}
	delete(n.handles, h)
	if h.nvidia {
		if h.board != nil {
			countMIG(n, h.board)
		}
		return
	}
	for _, b := range n.boards {
		if b == h.board || h.board == nil && h.attachedTo(b) {
			b.settled = time.Now().Add(n.opts.Settle)
		}
	}
}

func held(n *Node, match func(*Handle) bool) bool {
	for h := range n.handles {
		if match(h) {
			return true
		}
	}
	return false
}

// kfdPIDs returns the processes that have /dev/kfd open, or have memory by [Node.Use]. The caller holds
// n.mu.
func kfdPIDs(n *Node) []int {
	var out []int
	for h := range n.handles {
		if h.board == nil && !h.nvidia && !slices.Contains(out, h.PID) {
			out = append(out, h.PID)
		}
	}
	for t := range n.uses.vram {
		if !slices.Contains(out, t.pid) {
			out = append(out, t.pid)
		}
	}
	slices.Sort(out)
	return out
}
