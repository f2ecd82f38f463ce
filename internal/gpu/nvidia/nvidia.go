package nvidia

import (
	"path/filepath"
	"sync/atomic"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// Node is the part of a machine that the driver drives. It is a [gpu.Vendor]. Its
// methods may be called concurrently.
type Node struct {
	roots           gpu.Roots
	program         string        // dcm-nvml; "": it is not asked
	args            []string      // its first ones
	library         string        // what it loads; "": the usual places
	timeout         time.Duration // for an answer; 0: by what is asked
	conflictingUnit func() string // another program that sets MIG and is to be run at boot
	createNodes     bool          // a look may make the device nodes that are missing

	limits openfiles.Limits // for looking who uses the GPUs

	lastReply atomic.Pointer[nvml.Reply] // of a look
}

// These are optional for a vendor.
var (
	_ gpu.Poller         = (*Node)(nil)
	_ gpu.DropInProvider = (*Node)(nil)
	_ gpu.CrossChecker   = (*Node)(nil)
	_ gpu.Measurer       = (*Node)(nil)
)

// Option changes how a node is treated.
type Option func(*Node)

// Program has dcm-nvml asked, at that path, which loads that library; "" for the usual
// places. It is given these arguments.
func Program(path, library string, args ...string) Option {
	return func(n *Node) { n.program, n.library, n.args = path, library, args }
}

// Timeout sets how long an answer may take.
func RequestTimeout(d time.Duration) Option { return func(n *Node) { n.timeout = d } }

// Rival tells of a unit that would set MIG as well, at boot or now; "" for none. While
// there is one, nothing is changed.
func ConflictingUnit(name func() string) Option { return func(n *Node) { n.conflictingUnit = name } }

// Changes lets a look make the device nodes that are missing. It is for a run, which is
// about to change the GPUs; inspecting a GPU changes no node.
func CreateNodes() Option { return func(n *Node) { n.createNodes = true } }

// Open returns the node under the roots. It touches nothing.
func Open(r gpu.Roots, opts ...Option) *Node {
	n := &Node{roots: r, conflictingUnit: func() string { return "" }, limits: openfiles.DefaultLimits()}
	for _, o := range opts {
		o(n)
	}
	return n
}

const driver = "nvidia"

// Traits is what is always so of the driver.
func (n *Node) Traits() gpu.Traits {
	return gpu.Traits{Vendor: partition.NVIDIA, Driver: driver, KernelLogWords: []string{"nvidia", "NVRM"}}
}

func (n *Node) sys(elem ...string) string {
	return filepath.Join(append([]string{n.roots.Sys}, elem...)...)
}

// proc is a path below /proc/driver/nvidia.
func (n *Node) proc(elem ...string) string {
	return filepath.Join(append([]string{n.roots.Proc, "driver/nvidia"}, elem...)...)
}

// module is the kernel's.
func (n *Node) module() gpu.Module { return gpu.Module{Sys: n.roots.Sys, Name: driver} }
