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

// Node is the [gpu.Vendor] for NVIDIA. Its methods may be called concurrently.
type Node struct {
	roots           gpu.Roots
	program         string        // path of dcm-nvml; "": never run
	args            []string      // first arguments of program
	library         string        // path of the library; "": the usual places
	timeout         time.Duration // of a request; 0: depends on the request
	conflictingUnit func() string // unit that also configures MIG, "" if none
	createNodes     bool          // a read may create missing device nodes

	limits openfiles.Limits // of the scan of open files

	lastReply atomic.Pointer[nvml.Reply] // of a read
}

// These are optional for a vendor.
var (
	_ gpu.Poller         = (*Node)(nil)
	_ gpu.DropInProvider = (*Node)(nil)
	_ gpu.CrossChecker   = (*Node)(nil)
	_ gpu.Measurer       = (*Node)(nil)
)

// Option configures a [Node].
type Option func(*Node)

// Program sets the path of dcm-nvml, the library that it loads ("" for the usual places) and
// its first arguments.
func Program(path, library string, args ...string) Option {
	return func(n *Node) { n.program, n.library, n.args = path, library, args }
}

// RequestTimeout sets the timeout of a request. The default is 30 s for a read and 2 min for
// a change.
func RequestTimeout(d time.Duration) Option { return func(n *Node) { n.timeout = d } }

// ConflictingUnit sets a function that returns an enabled or running unit that also
// configures MIG, "" for none. dcm changes nothing while there is one.
func ConflictingUnit(name func() string) Option { return func(n *Node) { n.conflictingUnit = name } }

// CreateNodes permits a read to create missing device nodes. It is for a run, which is going
// to change the GPUs. Inspecting a GPU must not create nodes.
func CreateNodes() Option { return func(n *Node) { n.createNodes = true } }

// Open returns the node. It reads nothing.
func Open(r gpu.Roots, opts ...Option) *Node {
	n := &Node{roots: r, conflictingUnit: func() string { return "" }, limits: openfiles.DefaultLimits()}
	for _, o := range opts {
		o(n)
	}
	return n
}

const driver = "nvidia"

// Traits implements [gpu.Vendor].
func (n *Node) Traits() gpu.Traits {
	return gpu.Traits{Vendor: partition.NVIDIA, Driver: driver, KernelLogWords: []string{"nvidia", "NVRM"}}
}

func (n *Node) sys(elem ...string) string {
	return filepath.Join(append([]string{n.roots.Sys}, elem...)...)
}

// proc returns a path below /proc/driver/nvidia.
func (n *Node) proc(elem ...string) string {
	return filepath.Join(append([]string{n.roots.Proc, "driver/nvidia"}, elem...)...)
}

// module is the driver's kernel module.
func (n *Node) module() gpu.Module { return gpu.Module{Sys: n.roots.Sys, Name: driver} }
