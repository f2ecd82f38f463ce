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

// Op is an operation that a fault can affect.
type Op string

// The operations.
const (
	OpCompute    Op = "compute"    // a write to current_compute_partition
	OpMemory     Op = "memory"     // a write to current_memory_partition
	OpAllocation Op = "allocation" // a write to compute_partition_mem_alloc_mode
	OpClean      Op = "clean"      // a write to run_cleaner_shader
	OpIsolation  Op = "isolation"  // a write to enforce_isolation
	OpRead       Op = "read"       // a read of a partition file
	OpUnload     Op = "unload"
	OpLoad       Op = "load" // with a GPU: the driver's probe of that GPU
	OpNow        Op = "now"  // no operation: the fault occurs immediately; only for Vanish and Appear
	OpShow       Op = "show" // a file has other properties until the faults are cleared
)

// Fault is an error of one operation. Fields with their zero value have no effect.
type Fault struct {
	Op   Op                `json:"op"`
	GPU  partition.Address `json:"gpu,omitempty"`  // "" for any
	File string            `json:"file,omitempty"` // for OpRead: only this file, such as "current_compute_partition"

	// Errno is the error of the operation, which then has no effect. With After, the operation
	// has its effect before the error. EIO of a compute write always means that: KFD could not be
	// started again after the switch.
	Errno Errno `json:"errno,omitempty"`
	After bool  `json:"after,omitempty"`
	// Hang delays the operation, until the faults are cleared at the latest. It can be interrupted
	// meanwhile. A delayed probe delays the GPU, not the load of the module.
	Hang   Duration `json:"hang,omitempty"`
	Vanish bool     `json:"vanish,omitempty"` // the GPU is removed from the bus: ENODEV
	Appear bool     `json:"appear,omitempty"` // a GPU that has vanished is added to the bus, and its driver probes it
	Wrong  bool     `json:"wrong,omitempty"`  // a write has no effect, but returns success; a read returns another mode
	Short  bool     `json:"short,omitempty"`  // a read returns only a part of the word
	// Unknown makes a read of a mode return 15, which is no mode. A GPU that has left the bus does
	// that.
	Unknown bool `json:"unknown,omitempty"`

	// For OpShow: a file of the GPU or, without a GPU, any file by its path, such as
	// "dev/dri/renderD130":
	Gone        bool   `json:"gone,omitempty"`        // the file does not exist
	Permissions uint32 `json:"permissions,omitempty"` // the file has these permissions
	// Text is what a read of the file returns. If it is "name value" and the file has a line with that
	// name, it replaces that line only.
	Text string `json:"text,omitempty"`

	Skip   int  `json:"skip,omitempty"`  // number of operations before the fault occurs
	Times  int  `json:"times,omitempty"` // how often the fault occurs; 0 means once
	Always bool `json:"always,omitempty"`
}

// Check returns an error if the fault is not valid.
func (f Fault) Check() error {
	ops := []Op{OpCompute, OpMemory, OpAllocation, OpClean, OpIsolation, OpRead, OpUnload, OpLoad, OpNow, OpShow}
	switch {
	case !slices.Contains(ops, f.Op):
		return fmt.Errorf("unknown operation %q: there are %s", f.Op, partition.List(ops))
	case f.Op == OpNow && (f.Vanish == f.Appear || f.GPU == ""):
		return errors.New("only one GPU's vanishing or appearing can happen now")
	case f.Op != OpNow && f.Appear:
		return errors.New("a GPU can only appear now")
	case f.Op == OpShow && (f.File == "" || !f.Gone && f.Permissions == 0 && f.Text == ""):
		return errors.New("a file is shown otherwise by its name: let it be gone, or have other permissions or another text")
	case f.Op == OpShow:
		return nil
	case f.Errno == 0 && f.Hang == 0 && !f.Vanish && !f.Appear && !f.Wrong && !f.Short && !f.Unknown:
		return fmt.Errorf("a fault of %s that does nothing: give it an errno, or let it hang, vanish, be wrong or be short", f.Op)
	case f.Skip < 0 || f.Times < 0:
		return errors.New("a fault cannot skip or strike less than zero times")
	}
	return nil
}

// applyLies changes how the files below a directory are shown. The caller holds n.mu, so dir must not be
// above [kfdLive], whose entries are listed with it.
func applyLies(n *Node, dir string, root *Entry) {
	for _, f := range n.faults {
		name := f.File
		if f.GPU != "" {
			name = "sys/" + pciPath(f.GPU) + "/" + name
		}
		name, below := strings.CutPrefix(name, dir)
		if f.Op != OpShow || !below || dir == "" && isLive(name) {
			continue
		}
		e := root
		for part := range strings.SplitSeq(name, "/") {
			if e == nil || e.list == nil {
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
		if f.Text != "" && e.read != nil {
			e.read, e.content = lie(e.read, f.Text), nil
		}
	}
}

// kfdLive are the directories whose entries are made at each access.
func kfdLive() []string { return []string{kfdDir + "/topology/nodes/", kfdDir + "/proc/"} }

func isLive(name string) bool {
	return slices.ContainsFunc(kfdLive(), func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// lie returns a read that returns the text of a fault.
func lie(read func(context.Context) (string, error), text string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		honest, err := read(ctx)
		if err != nil {
			return "", err
		}
		name, _, _ := strings.Cut(text, " ")
		lines := strings.SplitAfter(honest, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, name+" ") && name != text {
				lines[i] = text + "\n"
				return strings.Join(lines, ""), nil
			}
		}
		return text + "\n", nil
	}
}

// strike returns the first fault of the operation, and counts its occurrence. b is nil for an operation
// of the whole node. The caller holds n.mu.
func strike(n *Node, op Op, b *board, file string) Fault {
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

// hits reports whether the fault is for this GPU. A fault of a load without a GPU is for the load as a
// whole, with a GPU for the probe of that GPU. A fault of an unload is always for the whole.
func (f *Fault) hits(b *board) bool {
	switch {
	case f.GPU == "":
		return b == nil || f.Op != OpLoad
	case b == nil:
		return f.Op == OpUnload
	}
	return b.Address == f.GPU
}

// meet applies the part of a fault that comes before the effect of the operation. It returns the
// fault, whose error may come after the effect.
func meet(ctx context.Context, n *Node, op Op, b *board, file string) (Fault, error) {
	n.mu.Lock()
	f, cleared := strike(n, op, b, file), n.cleared
	n.mu.Unlock()
	if err := wait(ctx, time.Duration(f.Hang), cleared); err != nil {
		return f, err
	}
	if f.Vanish && b != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		vanish(n, b)
		return f, syscall.ENODEV
	}
	if f.Errno != 0 && !f.After {
		return f, syscall.Errno(f.Errno)
	}
	return f, nil
}

// late returns the error that comes after the effect.
func (f Fault) late() error {
	if f.Errno != 0 && f.After {
		return syscall.Errno(f.Errno)
	}
	return nil
}

// wait waits for d, or until the end; forever if d is negative. It returns EINTR when ctx ends.
func wait(ctx context.Context, d time.Duration, end <-chan struct{}) error {
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
	case <-end:
		return nil
	case <-ctx.Done():
		return syscall.EINTR
	}
}
