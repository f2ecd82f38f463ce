package openfiles

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/linux/sysfs"
)

// Limits are how long a look at all processes may take, and that at one of them.
type Limits struct{ Total, PerProcess time.Duration }

// Usual is enough on a busy host.
func DefaultLimits() Limits { return Limits{20 * time.Second, 5 * time.Second} }

// within leaves the caller the time to act on the answer.
func (l Limits) totalFor(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(l.Total, time.Until(end)/2)
	}
	return l.Total
}

// Look looks who uses GPUs through the nodes. It takes no longer than the limit, and for
// no process longer than that for one; who is left out is in Unlooked. tally adds what the
// driver tells to what was seen; it is asked again where more was looked at.
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
	// Mappings cost as much again, and mostly there is nothing to explain.
	if !u.Counted && !s.FoundAny() || u.Unexplained() > 0 {
		s.ScanMappings(limit)
		if err := tally(s, &u); err != nil {
			return gpu.Usage{}, err
		}
	}
	u.Holders, u.Uninspected = s.Holders(), s.Uninspected()
	return u, known.OwnershipError()
}
