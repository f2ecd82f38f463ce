package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
)

// ErrPartial means that the open files of some processes could not be inspected, so that
// holders may be missing.
var ErrPartial = errors.New("some processes could not be inspected")

// Usage is the use of the GPUs as two sources show it: the open files of processes, and the
// driver's own counters. The driver also counts what no open file shows: a file in flight
// over a socket, a file that only the kernel holds, a buffer shared with another driver.
type Usage struct {
	Holders     []Holder
	Uninspected []Uninspected // processes that could not be inspected, or not in time

	Counted   bool     // the driver is a module with a readable use count
	Count     int      // use count of the module
	Modules   []string // kernel modules that use the driver; each adds one to Count
	Accounted int      // what the open files of Holders add to Count
	Orphans   []int    // PIDs that the driver lists and that do not exist in /proc

	byVendor map[partition.Vendor]Usage // set for a node
}

// ForVendor returns the usage of one vendor's GPUs.
func (u Usage) ForVendor(v partition.Vendor) Usage {
	if u.byVendor == nil {
		return u
	}
	own := u.byVendor[v]
	own.Uninspected = u.Uninspected // an uninspected process may hold any GPU
	own.Holders = slices.DeleteFunc(slices.Clone(u.Holders), func(h Holder) bool { return h.LeaseOwner == "" && !slices.Contains(h.Vendors, v) })
	return own
}

// Unexplained returns the part of the use count that neither modules nor open files explain.
//
// An unused driver counts only the modules that use it, not its GPUs or its own threads. On
// some hosts a console or a sound device holds it too. That share is known only after a
// load.
func (u Usage) Unexplained() int { return max(0, u.Count-len(u.Modules)-u.Accounted) }

// Unused reports whether the driver's counters prove that no process uses it. idle is the
// use count, without modules, of this driver when it is unused.
func (u Usage) Unused(idle int) bool {
	return u.Counted && len(u.Holders)+len(u.Orphans) == 0 && u.Unexplained() <= idle
}

// Uninspected is a process whose open files could not all be inspected.
type Uninspected struct {
	PID      int
	Command  string
	UID      int
	Files    int    // number of open files; 0 if the kernel does not report it
	Reason   string // as in "timed out"
	TimedOut bool   // inspection is permitted but took too long
}

func (u Uninspected) String() string {
	text := fmt.Sprintf("%s (pid %d, user %d", u.Command, u.PID, u.UID)
	if u.Files > 0 {
		text += fmt.Sprintf(", %d open files", u.Files)
	}
	return text + "): " + u.Reason
}

// PartialError names the processes that could not be inspected.
type PartialError struct{ Uninspected []Uninspected }

func (e *PartialError) Error() string {
	const most = 3
	var text []string
	for _, u := range e.Uninspected[:min(most, len(e.Uninspected))] {
		text = append(text, u.String())
	}
	if more := len(e.Uninspected) - most; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return ErrPartial.Error() + ": " + strings.Join(text, "; ")
}

// Is makes the error [ErrPartial].
func (e *PartialError) Is(target error) bool { return target == ErrPartial }

// Hint says what to do about it.
func (e *PartialError) Hint() string {
	return "End these processes or close some of their files, so that dcm can see which processes have a GPU open."
}

// Usage returns the usage of the GPUs of all vendors that are on the bus.
func (n *Node) Usage(ctx context.Context) (Usage, error) {
	there, err := n.present()
	if err != nil {
		there = n.vendors
	}
	return n.usage(ctx, there)
}

// UsageOf is [Node.Usage] for some vendors. It does not scan the bus.
func (n *Node) UsageOf(ctx context.Context, of func(partition.Vendor) bool) (Usage, error) {
	others := func(v Vendor) bool { return !of(v.Traits().Vendor) }
	return n.usage(ctx, slices.DeleteFunc(slices.Clone(n.vendors), others))
}

func (n *Node) usage(ctx context.Context, there []Vendor) (Usage, error) {

	all := Usage{Counted: len(there) > 0, byVendor: make(map[partition.Vendor]Usage)}
	for _, v := range there {
		u, err := v.Usage(ctx)
		if err != nil {
			return Usage{}, withVendor(v, err)
		}
		all.add(u, v.Traits().Vendor)
	}
	if n.leases != nil {
		all.addLeases(n.leases())
	}
	sorting.By(all.Holders, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	return all, nil
}

// addLeases adds each lease as a holder. If a process of the lease is already a holder, it
// marks that one instead.
func (u *Usage) addLeases(leases []Holder) {
	for _, l := range leases {
		open := false
		for i := range u.Holders {
			if h := &u.Holders[i]; h.Unit == l.Unit {
				h.LeaseOwner, open = l.LeaseOwner, true
			}
		}
		if !open {
			u.Holders = append(u.Holders, l)
		}
	}
}

// add adds the usage of one vendor. The sums stay meaningful, since each driver counts only
// its own use.
func (u *Usage) add(o Usage, vendor partition.Vendor) {
	u.byVendor[vendor] = o
	for _, h := range o.Holders {
		h.Vendors = []partition.Vendor{vendor}
		u.Holders = mergeHolder(u.Holders, h)
	}
	for _, p := range o.Uninspected {
		if !slices.ContainsFunc(u.Uninspected, func(known Uninspected) bool { return known.PID == p.PID }) {
			u.Uninspected = append(u.Uninspected, p)
		}
	}
	u.Counted = u.Counted && o.Counted
	u.Count += o.Count
	u.Modules = append(u.Modules, o.Modules...)
	u.Accounted += o.Accounted
	u.Orphans = append(u.Orphans, o.Orphans...)
}
