package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"dcm/internal/gpu/partition"
)

// Op is an operation that a fault can strike.
type Op string

// The operations.
const (
	OpCompute Op = "compute" // a write to current_compute_partition
	OpMemory  Op = "memory"  // a write to current_memory_partition
	OpRead    Op = "read"    // a read of a partition file
	OpUnload  Op = "unload"
	OpLoad    Op = "load" // with a GPU: the driver's probe of that GPU
	OpNow     Op = "now"  // immediately; only to let a GPU vanish
	OpShow    Op = "show" // how a file of the tree is shown, until the faults are cleared
)

// Fault is one thing that goes wrong. The zero value of a field asks for nothing.
type Fault struct {
	Op   Op                `json:"op"`
	GPU  partition.Address `json:"gpu,omitempty"`  // "" for any
	File string            `json:"file,omitempty"` // of a read: only this file, "current_compute_partition"

	// Errno is what the operation fails with, before it had any effect; with
	// After, after it. EIO of a compute write always comes after: KFD could not
	// be started again after the switch.
	Errno Errno `json:"errno,omitempty"`
	After bool  `json:"after,omitempty"`
	// Hang blocks the operation, which is interruptible meanwhile, and then lets
	// it go on. A probe that hangs makes the GPU late, not the load.
	Hang   Duration `json:"hang,omitempty"`
	Vanish bool     `json:"vanish,omitempty"` // the GPU falls off the bus: ENODEV
	Wrong  bool     `json:"wrong,omitempty"`  // success is claimed without effect; a read shows another mode
	Short  bool     `json:"short,omitempty"`  // a read ends in the middle of the word
	// Unknown is a read of a mode that is no mode (15), as of a GPU that has left the bus.
	Unknown bool `json:"unknown,omitempty"`

	// Of a file that is shown, which is the GPU's or, without a GPU, any by its path,
	// "dev/dri/renderD130":
	Gone        bool   `json:"gone,omitempty"`        // it is not there
	Permissions uint32 `json:"permissions,omitempty"` // it has these instead

	Skip   int  `json:"skip,omitempty"`  // let that many operations pass first
	Times  int  `json:"times,omitempty"` // strike that often; 0 is once
	Always bool `json:"always,omitempty"`
}

// Check returns what is wrong with the fault itself.
func (f Fault) Check() error {
	ops := []Op{OpCompute, OpMemory, OpRead, OpUnload, OpLoad, OpNow, OpShow}
	switch {
	case !slices.Contains(ops, f.Op):
		return fmt.Errorf("unknown operation %q: there are %s", f.Op, partition.List(ops))
	case f.Op == OpNow && (!f.Vanish || f.GPU == ""):
		return errors.New("only a GPU's vanishing can happen now")
	case f.Op == OpShow && (f.File == "" || !f.Gone && f.Permissions == 0):
		return errors.New("a file is shown otherwise by its name: let it be gone, or have other permissions")
	case f.Op == OpShow:
		return nil
	case f.Errno == 0 && f.Hang == 0 && !f.Vanish && !f.Wrong && !f.Short && !f.Unknown:
		return fmt.Errorf("a fault of %s that does nothing: give it an errno, or let it hang, vanish, be wrong or be short", f.Op)
	case f.Skip < 0 || f.Times < 0:
		return errors.New("a fault cannot skip or strike less than zero times")
	}
	return nil
}

// Inject arms a fault.
func (n *Node) Inject(f Fault) error {
	if err := f.Check(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.GPU != "" && n.find(f.GPU) == nil {
		return fmt.Errorf("there is no GPU at %s", f.GPU)
	}
	if f.Op == OpNow {
		n.vanish(n.find(f.GPU))
		return nil
	}
	f.Times = max(f.Times, 1)
	f.After = f.After || f.Op == OpCompute && f.Errno == Errno(syscall.EIO)
	n.faults = append(n.faults, f)
	if f.Op == OpShow {
		n.changed()
	}
	return nil
}

// lie shows files otherwise than they are. n.mu is held.
func (n *Node) lie(root *Entry) {
	for _, f := range n.faults {
		name := f.File
		if f.GPU != "" {
			name = "sys/" + pciPath(f.GPU) + "/" + name
		}
		e := root
		for part := range strings.SplitSeq(name, "/") {
			if f.Op != OpShow || e == nil || e.list == nil {
				e = nil
				break
			}
			e = e.list()[part]
		}
		if e == nil {
			continue
		}
		e.hidden = e.hidden || f.Gone
		if f.Permissions != 0 {
			e.Mode = e.Mode&syscall.S_IFMT | f.Permissions
		}
	}
}

// ClearFaults disarms every fault. A GPU that vanished stays away.
func (n *Node) ClearFaults() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = nil
	n.changed()
}

// strike returns the first armed fault of the operation, and uses it up. b is
// nil for an operation of the whole node. n.mu is held.
func (n *Node) strike(op Op, b *board, file string) Fault {
	for i := range n.faults {
		f := &n.faults[i]
		if f.Op != op || f.File != "" && f.File != file || !f.hits(b) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		struck := *f
		if f.Times--; f.Times == 0 && !f.Always {
			n.faults = slices.Delete(n.faults, i, i+1)
		}
		return struck
	}
	return Fault{}
}

// hits reports whether the fault is meant for the GPU. The load as a whole and
// the probe of one GPU are two things; an unload has only the whole.
func (f *Fault) hits(b *board) bool {
	switch {
	case f.GPU == "":
		return b == nil || f.Op != OpLoad
	case b == nil:
		return f.Op == OpUnload
	}
	return b.Address == f.GPU
}

// meet lets the fault of an operation, if there is one, happen as far as it is
// before the operation's effect. It returns the rest of it.
func (n *Node) meet(ctx context.Context, op Op, b *board, file string) (Fault, error) {
	n.mu.Lock()
	f := n.strike(op, b, file)
	n.mu.Unlock()
	if err := wait(ctx, time.Duration(f.Hang)); err != nil {
		return f, err
	}
	if f.Vanish && b != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.vanish(b)
		return f, syscall.ENODEV
	}
	if f.Errno != 0 && !f.After {
		return f, syscall.Errno(f.Errno)
	}
	return f, nil
}

// late is the error that comes after the effect.
func (f Fault) late() error {
	if f.Errno != 0 && f.After {
		return syscall.Errno(f.Errno)
	}
	return nil
}

// wait lets d pass, or forever if d is negative, and answers EINTR when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	var passed <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return syscall.EINTR
	}
}
