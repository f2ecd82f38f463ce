package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
)

// ErrPartial means that the open files of some processes could not be inspected, so that
// holders may be missing.
var ErrPartial = errors.New("some processes could not be inspected")

// Usage is the use of the GPUs of a node.
type Usage struct {
	Holders     []Holder
	Uninspected []Uninspected // processes that could not be inspected, or not in time
	Drivers     []DriverUse   // one for each vendor that has a GPU on the bus
}

// VendorUsage is the use of one vendor's GPUs as two sources show it: the open files of
// processes, and the driver's own counters. The driver also counts what no open file shows: a
// file in flight over a socket, a file that only the kernel holds, a buffer shared with
// another driver.
type VendorUsage struct {
	Holders     []Holder
	Uninspected []Uninspected // processes that could not be inspected, or not in time
	DriverUse
}

// DriverUse is what one driver counts of its use.
type DriverUse struct {
	Vendor    partition.Vendor
	Counted   bool     // the driver is a module with a readable use count
	Count     int      // use count of the module
	Modules   []string // kernel modules that use the driver; each adds one to Count
	Accounted int      // what the open files of the holders add to Count
	Orphans   []int    // PIDs that the driver lists and whose processes have ended
}

// ForVendor returns the usage of one vendor's GPUs. The counters are zero if the vendor has no
// GPU on the bus.
func (u Usage) ForVendor(v partition.Vendor) VendorUsage {
	own := VendorUsage{
		Uninspected: u.Uninspected, // an uninspected process may hold any GPU
		Holders:     slices.DeleteFunc(slices.Clone(u.Holders), func(h Holder) bool { return h.LeaseOwner == "" && !slices.Contains(h.Vendors, v) }),
		DriverUse:   DriverUse{Vendor: v},
	}
	for _, d := range u.Drivers {
		if d.Vendor == v {
			own.DriverUse = d
		}
	}
	return own
}

// Partial returns a [PartialError] if some processes could not be inspected, otherwise nil.
func (u Usage) Partial() error {
	if len(u.Uninspected) == 0 {
		return nil
	}
	return &PartialError{u.Uninspected}
}

// Unexplained returns the part of the use count that neither modules nor open files explain.
//
// An unused driver counts only the modules that use it, not its GPUs or its own threads. On
// some hosts a console or a sound device holds it too. That share is known only after a
// load.
func (d DriverUse) Unexplained() int { return max(0, d.Count-len(d.Modules)-d.Accounted) }

// Unused reports whether the driver's counters prove that no process uses it. idle is the
// use count, without modules, of this driver when it is unused.
func (u VendorUsage) Unused(idle int) bool {
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
	return "end these processes or close some of their files, so that dcm can see which processes have a GPU open"
}

// Usage returns the usage of the GPUs of all vendors that are on the bus.
func (n *Node) Usage(ctx context.Context) (Usage, error) {
	present, _ := n.bus.present() // all vendors, if the bus cannot be read
	u, err := usageOf(ctx, present, n.leases)
	if err == nil {
		err = n.Attach(u.Holders)
	}
	return u, err
}

// Attach sets [Holder.Attached] of the holders, which costs some file reads for each partition.
func (n *Node) Attach(holders []Holder) error {
	for _, v := range n.bus.vendors {
		if v.Attach == nil {
			continue
		}
		if err := v.Attach(holders); err != nil {
			return withVendor(v, err)
		}
	}
	return nil
}

// UsageOf is [Node.Usage] for some vendors, without [Node.Attach]. It does not scan the bus.
func (n *Node) UsageOf(ctx context.Context, of func(partition.Vendor) bool) (Usage, error) {
	others := func(v Vendor) bool { return !of(v.Vendor) }
	return usageOf(ctx, slices.DeleteFunc(slices.Clone(n.bus.vendors), others), n.leases)
}

func usageOf(ctx context.Context, vendors []Vendor, leases func() []Holder) (Usage, error) {
	var all Usage
	for _, v := range vendors {
		u, err := v.Usage(ctx)
		if err != nil {
			return Usage{}, withVendor(v, err)
		}
		all.add(u, v.Vendor)
	}
	if leases != nil {
		all.addLeases(leases())
	}
	sorting.By(all.Holders, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	return all, nil
}

// add adds the usage of one vendor.
func (u *Usage) add(own VendorUsage, vendor partition.Vendor) {
	own.Vendor = vendor
	u.Drivers = append(u.Drivers, own.DriverUse)
	for _, h := range own.Holders {
		h.Vendors = []partition.Vendor{vendor}
		u.Holders = mergeHolder(u.Holders, h)
	}
	for _, p := range own.Uninspected {
		if !slices.ContainsFunc(u.Uninspected, func(known Uninspected) bool { return known.PID == p.PID }) {
			u.Uninspected = append(u.Uninspected, p)
		}
	}
}

// addLeases adds each lease as a holder. If a process of the lease is already a holder, it
// marks that one instead.
func (u *Usage) addLeases(leases []Holder) {
	for _, l := range leases {
		open := false
		for i := range u.Holders {
			if h := &u.Holders[i]; h.Unit == l.Unit {
				h.LeaseOwner, h.Leased, open = l.LeaseOwner, l.Leased, true
			}
		}
		if !open {
			u.Holders = append(u.Holders, l)
		}
	}
}

// WaitUsage returns nil when wanted accepts the usage, or ctx's error.
//
// The drivers send no event when their use changes. WaitUsage polls their counters, which is
// cheap, and scans the open files only after a change.
func (n *Node) WaitUsage(ctx context.Context, wanted func(Usage) bool) error {
	tick := time.NewTicker(20 * n.wait.pollInterval)
	defer tick.Stop()
	for last := ""; ; {
		if now := n.bus.usageFingerprint(); now != last {
			u, err := n.Usage(ctx)
			if err == nil && wanted(u) {
				return nil
			}
			if last = now; err != nil {
				last = "" // a retry may succeed
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// usageFingerprint returns the vendors' usage fingerprints in one text.
func (b *bus) usageFingerprint() string {
	var text strings.Builder
	present, _ := b.present() // all vendors, if the bus cannot be read
	for _, v := range present {
		fmt.Fprintln(&text, v.UsageFingerprint())
	}
	return text.String()
}
