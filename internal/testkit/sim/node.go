package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dcm/internal/gpu/partition"
)

// Options define the behaviour of a node that does not depend on its kind.
type Options struct {
	SwitchLatency time.Duration // of a compute switch
	ReloadLatency time.Duration // of a driver load
	ResetLatency  time.Duration // of the reset of a hive in a load that activates a memory mode
	Settle        time.Duration // KFD's teardown of a process is asynchronous: a GPU is busy that much longer
	NodeLock      bool          // older kernels: KFD's lock and its processes are the node's, not the GPU's
	Parameters    Parameters    // of the module at boot
	Allocation    bool          // Linux 7.1: GPUs with partitions have compute_partition_mem_alloc_mode
	Cleaner       bool          // newer kernels, and firmware that supports it: run_cleaner_shader and enforce_isolation
	OldMinors     bool          // kernels before 6.12: there are only 64 DRM minors of each kind
	Modeset       bool          // nvidia_drm has modeset=1, and so holds the GPUs
	Scattered     bool          // DRM minors follow neither the GPUs' order nor the partitions', as after rebinds

	Uevent func(Uevent) // receives the kernel events of devices, after the change that they are about

	Memory      partition.Memory // memory mode at boot of the GPUs that support it; "": the first one that each supports
	UsageFormat UsageFormat      // format of the usage tables of the partitions

	// MIG is the state file of the stand-in for libnvidia-ml;
	// "" for GPUs that were never partitioned.
	MIG string
}

// Node is the state machine. Its methods may be called concurrently. Methods that stand for a system
// call return a syscall.Errno.
type Node struct {
	kind Kind
	opts Options

	mu      stateLock
	boards  []*board
	module  moduleState // the state of amdgpu
	nvidia  moduleState // the state of nvidia
	display moduleState // the state of nvidia_drm
	params  Parameters
	loads   int
	unloads int
	handles map[*Handle]bool
	allowed []Allowance
	faults  []Fault
	cleared chan struct{} // closed when the faults are cleared
	uses    uses

	structure uint64 // incremented when files are added or removed
	topology  uint64 // incremented when KFD nodes change
	cache     cache
	mig       migCache
}

// New returns a node in its state after boot: the driver is loaded, and every GPU is in its initial mode.
func New(k Kind, o Options) *Node {
	o.UsageFormat = cmp.Or(o.UsageFormat, k.usage)
	n := &Node{kind: k, opts: o, handles: make(map[*Handle]bool), cleared: make(chan struct{}), mig: migCache{file: o.MIG}}
	n.mu.send = o.Uevent
	for i, b := range k.Boards {
		n.boards = append(n.boards, &board{Board: b, index: i})
	}
	allocateMinors(n.boards, o.OldMinors, o.Scattered)
	n.Reset()
	return n
}

// Begin creates the state of the stand-in for libnvidia-ml, as after a boot.
func (n *Node) Begin() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return beginMIG(n)
}

// Reset sets the state after boot. Open files stay open.
func (n *Node) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	boot(n)
}

func boot(n *Node) {
	n.faults, n.loads, n.unloads, n.uses, n.allowed = nil, 0, 0, uses{}, nil
	n.module, n.nvidia, n.params = driven(n, Chip.AMD), driven(n, Chip.NVIDIA), n.opts.Parameters
	n.display = n.nvidia
	for _, b := range n.boards {
		b.vanished, b.pending, b.next = false, "", ""
		b.switches, b.writes, b.cleaned = 0, make(map[string]int), [xcps]int{}
		switch {
		case b.recorded != nil && n.opts.Memory == "":
			b.memory = b.recorded.mode.Memory
		case slices.Contains(b.Chip.Memory, n.opts.Memory):
			b.memory = n.opts.Memory
		case len(b.Chip.Memory) > 0:
			b.memory = b.Chip.Memory[0]
		}
		bind(n, b)
		if b.recorded != nil {
			b.allocation = b.recorded.allocation
		}
		b.resume()
	}
}

// driven returns the state of a module at boot: it is loaded if there is a chip for it.
func driven(n *Node, by func(Chip) bool) moduleState {
	if slices.ContainsFunc(n.boards, func(b *board) bool { return by(b.Chip) }) {
		return live
	}
	return absent
}

// changed records that files were added or removed. The caller holds n.mu.
func (n *Node) changed() {
	n.structure++
	n.renumbered()
}

// renumbered records that KFD nodes were added or removed. The caller holds n.mu.
func (n *Node) renumbered() {
	n.topology++
	n.mu.changed = true
}

// find returns the board at that address, nil if there is none.
func (n *Node) find(a partition.Address) *board {
	for _, b := range n.boards {
		if b.Address == a {
			return b
		}
	}
	return nil
}

// End stops the use of the stand-in's state, which can then be removed. Files that a process left open
// are closed some time after its end.
func (n *Node) End() {
	n.mig.Lock()
	defer n.mig.Unlock()
	n.mig.file = ""
}

// State returns the state of the node.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := State{
		Kind: n.kind.Name, Module: string(n.module), NVIDIA: string(n.nvidia), Parameters: n.params,
		Loads: n.loads, Unloads: n.unloads, UseReads: n.uses.reads,
		Holders: holders(n), Faults: append([]Fault{}, n.faults...), Allowed: append([]Allowance{}, n.allowed...),
	}
	for _, b := range n.boards {
		if !b.Chip.AMD() && !b.Chip.NVIDIA() {
			continue
		}
		g := GPUState{
			Address: b.Address, Compute: b.compute, Memory: b.memory, Allocation: b.allocation, Pending: b.pending,
			Bound: b.bound, Vanished: b.vanished, Switches: b.switches, Writes: maps.Clone(b.writes),
		}
		if b.bound && b.Chip.AMD() {
			g.Partitions = b.partitions()
			g.Cleaned = slices.Clone(b.cleaned[:g.Partitions])
			if n.opts.Cleaner {
				g.Isolation = b.isolationText()
			}
		}
		if b.next != "" {
			g.Pending = b.next
		}
		s.ComputeWrites += b.writes[computeFile]
		s.MemoryWrites += b.writes[memoryFile]
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

// Inject adds a fault.
func (n *Node) Inject(f Fault) error {
	if err := f.Check(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.GPU != "" && n.find(f.GPU) == nil {
		return fmt.Errorf("there is no GPU at %s", f.GPU)
	}
	switch b := n.find(f.GPU); {
	case f.Op == OpNow && f.Vanish:
		vanish(n, b)
		return nil
	case f.Op == OpNow:
		return appear(n, b)
	}
	f.Times = max(f.Times, 1)
	f.After = f.After || f.Op == OpCompute && f.Errno == Errno(syscall.EIO)
	n.faults = append(n.faults, f)
	if f.Op == OpShow {
		n.changed()
	}
	return nil
}

// ClearFaults removes all faults and ends their hangs. A GPU that has vanished stays away until it appears.
func (n *Node) ClearFaults() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = nil
	close(n.cleared)
	n.cleared = make(chan struct{})
	n.changed()
}

// Use sets the use of a partition.
func (n *Node) Use(u Using) error {
	i := strings.LastIndexByte(u.Partition, '-')
	if i < 0 {
		return syscall.EINVAL
	}
	part, err := strconv.Atoi(u.Partition[i+1:])
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(partition.Address(u.Partition[:i]))
	if err != nil || b == nil || part < 0 || part >= xcps {
		return fmt.Errorf("there is no partition %s: %w", u.Partition, syscall.EINVAL)
	}
	if n.uses.vram == nil {
		n.uses.vram, n.uses.busy = make(map[tenant]uint64), make(map[spot]uint64)
		n.uses.sums, n.uses.ticks = make(map[spot]uint64), make(map[int]uint64)
	}
	if u.Busy != nil {
		n.uses.busy[spot{b.index, part}] = *u.Busy
	}
	if t := (tenant{u.PID, u.Context, b.index, part}); u.PID > 0 && u.VRAM > 0 {
		n.uses.vram[t] = u.VRAM
	} else {
		delete(n.uses.vram, t)
	}
	return nil
}

// RenderNode returns the name of a partition's render node, "" if it has none.
func (n *Node) RenderNode(a partition.Address, partition int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(a)
	if b == nil || b.renderMinor(partition) < 0 {
		return ""
	}
	return fmt.Sprintf("/dev/dri/renderD%d", b.renderMinor(partition))
}
