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

// ErrPartial says that some processes' open files may not be looked at, so that the
// holders found may not be all.
var ErrPartial = errors.New("not every process may be looked at")

// Usage is what there is to see of who uses the GPUs, from two sides: the open files
// of the processes, and what the driver itself counts. The driver counts more: an
// open file that was sent to a socket and not yet received, one that only the kernel
// keeps, a buffer shared with another driver.
type Usage struct {
	Holders     []Holder
	Uninspected []Uninspected // processes that could not be looked at, or not in time

	Counted   bool     // the driver is a module, whose use count can be read
	Count     int      // the use count, of the module
	Modules   []string // those of the kernel that use the driver, each of which is counted
	Accounted int      // what the holders' open files add to the count
	Orphans   []int    // processes that the driver itself lists and that are not to be found

	byVendor map[partition.Vendor]Usage // of a node: each vendor's own
}

// Of is the usage of one vendor's GPUs. A driver's count speaks for its own GPUs alone.
func (u Usage) ForVendor(v partition.Vendor) Usage {
	if u.byVendor == nil {
		return u
	}
	own := u.byVendor[v]
	own.Uninspected = u.Uninspected // who cannot be looked at may have any GPU open
	own.Holders = slices.DeleteFunc(slices.Clone(u.Holders), func(h Holder) bool { return h.LeaseOwner == "" && !slices.Contains(h.Vendors, v) })
	return own
}

// Unseen is how much of the use count nothing that was seen accounts for.
//
// A driver that nobody uses counts the modules that use it, and nothing else: its
// GPUs and its own threads are no use of it. On some hosts it is held from
// within besides, by a console or a sound device; what it counts there when nobody
// uses it is known only after a load.
func (u Usage) Unexplained() int { return max(0, u.Count-len(u.Modules)-u.Accounted) }

// Nobody reports whether the driver itself bears witness that no process uses it.
// idle is what it is known to count, beside modules, when that is so.
func (u Usage) Unused(idle int) bool {
	return u.Counted && len(u.Holders)+len(u.Orphans) == 0 && u.Unexplained() <= idle
}

// Uninspected is a process whose open files could not all be looked at.
type Uninspected struct {
	PID      int
	Command  string
	UID      int
	Files    int    // how many it has open; 0 where the kernel does not tell
	Reason   string // "there was no time for all of its open files"
	TimedOut bool   // it may be looked at, but took too long
}

func (u Uninspected) String() string {
	text := fmt.Sprintf("%s (pid %d, user %d", u.Command, u.PID, u.UID)
	if u.Files > 0 {
		text += fmt.Sprintf(", %d open files", u.Files)
	}
	return text + "): " + u.Reason
}

// PartialError names the processes that could not be looked at.
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

// Is makes it [ErrPartial].
func (e *PartialError) Is(target error) bool { return target == ErrPartial }

// Cure is what to do about it.
func (e *PartialError) Hint() string {
	return "End these processes, or have them close files; dcm needs to see who has a GPU open."
}

// Usage looks who uses the GPUs of the vendors that are on the bus.
func (n *Node) Usage(ctx context.Context) (Usage, error) {
	there, err := n.present()
	if err != nil {
		there = n.vendors
	}
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

// lease adds a process of each lease, unless some are known to have something open.
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

// add takes a vendor's usage in. The sums stay what they mean: each driver counts its
// own.
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
