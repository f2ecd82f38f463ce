package openfiles

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/linux/sysfs"
)

// Limits are the time limits for all processes together and for one process.
type Limits struct{ Total, PerProcess time.Duration }

// DefaultLimits suffice on a busy host.
func DefaultLimits() Limits { return Limits{20 * time.Second, 5 * time.Second} }

// totalFor returns the total limit. It leaves the caller at least half of its time.
func (l Limits) totalFor(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(l.Total, time.Until(end)/2)
	}
	return l.Total
}

// Search finds the processes that use the GPUs of one driver.
type Search struct {
	Proc   string                 // mount point of procfs
	Nodes  func() (*Nodes, error) // the driver's device nodes
	Module gpu.Module             // the driver's module
	Limits Limits

	// Attribute adds the uses that the driver itself reports, and returns the processes that
	// it lists and that do not exist.
	Attribute func(*Scan) (orphans []int, err error)
}

// Usage returns the processes that use the GPUs through the nodes, within the limits, and the
// driver's counters. Processes that it could not inspect are in Uninspected.
func (f Search) Usage(ctx context.Context) (gpu.VendorUsage, error) {
	var at step
	at.Store("the device nodes")
	u, err := sysfs.Within(ctx, func() (gpu.VendorUsage, error) { return f.usage(ctx, &at) })
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("timed out while reading %s: %w", at.Load(), err)
	}
	if err != nil {
		return gpu.VendorUsage{}, fmt.Errorf("cannot scan the processes for users of the GPUs: %w", err)
	}
	return u, nil
}

// step is what a search reads now. A hanging driver answers no read, and then it is all that is known.
type step struct{ atomic.Value }

func (f Search) usage(ctx context.Context, at *step) (u gpu.VendorUsage, err error) {
	nodes, err := f.Nodes()
	if err != nil {
		return u, err
	}
	s := NewScan(f.Proc, nodes, f.Limits.PerProcess)
	limit, cancel := context.WithTimeout(ctx, f.Limits.totalFor(ctx))
	defer cancel()
	at.Store("the open files")
	if err := s.ScanAll(limit); err != nil {
		return u, err
	}
	at.Store("the driver's own list of users")
	if u.DriverUse, err = f.driverUse(s); err != nil {
		return u, err
	}
	// Mappings cost as much again, and usually the use count is explained already.
	if !u.Counted && !s.FoundAny() || u.Unexplained() > 0 {
		at.Store("the memory mappings")
		s.ScanMappings(limit)
		at.Store("the driver's own list of users")
		if u.DriverUse, err = f.driverUse(s); err != nil {
			return u, err
		}
	}
	users := len(s.found)
	u.Holders, u.Uninspected = s.Holders(), s.Uninspected()
	if len(u.Holders) < users { // the driver may still list those that have ended
		if u.DriverUse, err = f.driverUse(s); err != nil {
			return u, err
		}
		u.Holders = s.Holders()
	}
	return u, nodes.OwnershipError()
}

// driverUse returns what the driver reports of its use.
func (f Search) driverUse(s *Scan) (u gpu.DriverUse, err error) {
	if u.Orphans, err = f.Attribute(s); err != nil {
		return u, err
	}
	u.Count, u.Modules, u.Counted = f.Module.UseCount()
	u.Accounted = s.Weight()
	return u, nil
}
