package openfiles

import (
	"context"
	"fmt"
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

// FindUsage returns the processes that use GPUs through the nodes, within the limits.
// Processes that it could not inspect are in Uninspected. tally adds the driver's counters
// and processes. It is called again if mappings were scanned.
func FindUsage(ctx context.Context, proc string, nodes func() (*Nodes, error), l Limits, tally func(*Scan, *gpu.Usage) error) (gpu.Usage, error) {
	u, err := sysfs.Within(ctx, func() (gpu.Usage, error) { return findUsage(ctx, proc, nodes, l, tally) })
	if err != nil {
		return gpu.Usage{}, fmt.Errorf("cannot look for processes that use the GPUs: %w", err)
	}
	return u, nil
}

func findUsage(ctx context.Context, proc string, nodes func() (*Nodes, error), l Limits, tally func(*Scan, *gpu.Usage) error) (gpu.Usage, error) {
	known, err := nodes()
	if err != nil {
		return gpu.Usage{}, err
	}
	s := NewScan(proc, known, l.PerProcess)
	limit, cancel := context.WithTimeout(ctx, l.totalFor(ctx))
	defer cancel()
	if err := s.ScanAll(limit); err != nil {
		return gpu.Usage{}, err
	}
	var u gpu.Usage
	if err := tally(s, &u); err != nil {
		return gpu.Usage{}, err
	}
	// Mappings cost as much again, and usually the use count is explained already.
	if !u.Counted && !s.FoundAny() || u.Unexplained() > 0 {
		s.ScanMappings(limit)
		if err := tally(s, &u); err != nil {
			return gpu.Usage{}, err
		}
	}
	u.Holders, u.Uninspected = s.Holders(), s.Uninspected()
	return u, known.OwnershipError()
}
