package sim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
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
	OldMinors     bool          // kernels before 6.12: there are only 64 DRM minors of each kind
	Modeset       bool          // nvidia_drm has modeset=1, and so holds the GPUs
	Scattered     bool          // DRM minors follow neither the GPUs' order nor the partitions', as after rebinds

	Uevent func(Uevent) // receives the kernel events of devices; must not wait

	Memory      partition.Memory // memory mode at boot of the GPUs that support it; "": the first one that each supports
	UsageFormat UsageFormat      // format of the usage tables of the partitions

	// MIG is the state file of the stand-in for libnvidia-ml;
	// "" for GPUs that were never partitioned.
	MIG string

	// Cache is how long the kernel may assume that an existing file still exists. Contents are
	// always read again. It makes readers faster that open ten thousands of files.
	Cache time.Duration
}

// Node is the state machine. Its methods may be called concurrently. Methods that stand for a system
// call return a syscall.Errno.
type Node struct {
	kind Kind
	opts Options

	mu      sync.Mutex
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
	uses    uses

	structure uint64 // incremented when files are added or removed
	topology  uint64 // incremented when KFD nodes change
	cache     cache
	mig       migCache
}

// board is the state of one PCI function.
type board struct {
	Board
	index  int
	minors []minor // the minors of its DRM devices

	vanished bool
	bound    bool // bound to its driver
	compute  partition.Compute
	memory   partition.Memory
	pending  partition.Memory  // requested with a write to the driver
	next     partition.Memory  // the requested mode, which the firmware got when the driver was unloaded
	config   partition.Compute // the mode that is selected in compute_partition_config

	resetting bool // the hive is in reset: reads and writes are refused
	switching bool
	settled   time.Time // when the last process that used it was removed
	switches  int
	writes    map[string]int // number of write(2) calls by file, including failed ones
}

// New returns a node in its state after boot: the driver is loaded, and every GPU is in its initial mode.
func New(k Kind, o Options) *Node {
	o.UsageFormat = cmp.Or(o.UsageFormat, k.usage)
	n := &Node{kind: k, opts: o, handles: make(map[*Handle]bool), mig: migCache{file: o.MIG}}
	for i, b := range k.Boards {
		n.boards = append(n.boards, &board{Board: b, index: i})
	}
	allocateMinors(n.boards, o.OldMinors, o.Scattered)
	n.boot()
	return n
}

// Begin creates the state of the stand-in for libnvidia-ml, as after a boot.
func (n *Node) Begin() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.beginMIG()
}

// Reset sets the state after boot. Open files stay open.
func (n *Node) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.boot()
}

func (n *Node) boot() {
	n.faults, n.loads, n.unloads, n.uses, n.allowed = nil, 0, 0, uses{}, nil
	n.module, n.nvidia, n.params = n.driven(Chip.AMD), n.driven(Chip.NVIDIA), n.opts.Parameters
	n.display = n.nvidia
	for _, b := range n.boards {
		b.vanished, b.pending, b.next = false, "", ""
		b.switches, b.writes = 0, make(map[string]int)
		switch {
		case b.recorded != nil && n.opts.Memory == "":
			b.memory = b.recorded.mode.Memory
		case slices.Contains(b.Chip.Memory, n.opts.Memory):
			b.memory = n.opts.Memory
		case len(b.Chip.Memory) > 0:
			b.memory = b.Chip.Memory[0]
		}
		n.bind(b)
		b.resume()
	}
}

// driven returns the state of a module at boot: it is loaded if there is a chip for it.
func (n *Node) driven(by func(Chip) bool) moduleState {
	if slices.ContainsFunc(n.boards, func(b *board) bool { return by(b.Chip) }) {
		return live
	}
	return absent
}

// bind is the driver's probe of a GPU. The caller holds n.mu.
func (n *Node) bind(b *board) {
	b.bound = true
	if b.Chip.XCC > 0 {
		b.compute = modeAtLoad(b.Chip, b.memory, n.params.Mode)
		b.config = b.compute
	}
	n.changed()
}

// vanish removes a GPU from the bus: it is unbound first, and the device's event comes last
// (device_del). The caller holds n.mu.
func (n *Node) vanish(b *board) {
	if b.bound {
		n.went(b)
	}
	if !b.vanished {
		n.emit("remove", pciPath(b.Address), "pci")
	}
	b.vanished, b.bound = true, false
	if b.Chip.NVIDIA() {
		n.lose(b)
	}
	n.changed()
}

// appear adds a GPU that has vanished to the bus, as PCIe hot-plug does: the device's event comes
// first, then the probe of its driver if that is loaded. The caller holds n.mu.
func (n *Node) appear(b *board) error {
	if !b.vanished || b.Chip.NVIDIA() {
		return fmt.Errorf("%s cannot appear: want an AMD GPU that has vanished", b.Address)
	}
	b.vanished, b.pending, b.next = false, "", ""
	for _, other := range n.hive(b) { // the driver keeps a requested memory mode for the whole hive
		if other != b && !other.vanished && (other.bound || n.module != live) {
			b.pending, b.next = other.pending, other.next
			break
		}
	}
	n.changed()
	n.emit("add", pciPath(b.Address), "pci")
	if n.module == live {
		n.bind(b)
		n.came(b)
	}
	return nil
}

// changed records that files were added or removed. The caller holds n.mu.
func (n *Node) changed() {
	n.structure++
	n.topology++
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

// hive returns the boards that share b's memory mode, including b.
func (n *Node) hive(b *board) []*board {
	if b.Hive == 0 {
		return []*board{b}
	}
	var out []*board
	for _, other := range n.boards {
		if other.Hive == b.Hive {
			out = append(out, other)
		}
	}
	return out
}
