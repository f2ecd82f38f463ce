package amdgpu

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// WaitUsage returns when the usage is as wanted, or with ctx's error.
//
// A count in sysfs tells nobody when it changes. So it is read every now and then,
// with the KFD's list, which costs next to nothing; only when one of the two is
// another is everybody looked at.
func (n *Node) WaitUsage(ctx context.Context, wanted func(Usage) bool) error {
	tick := time.NewTicker(20 * n.poll)
	defer tick.Stop()
	for last := ""; ; {
		if now := n.tallied(); now != last {
			u, err := n.Usage(ctx)
			if err == nil && wanted(u) {
				return nil
			}
			if last = now; err != nil {
				last = "" // another look may succeed
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tallied is what the driver tells of its use, to be compared.
func (n *Node) tallied() string {
	count, modules, ok := n.useCount()
	compute, _ := numbers(n.sys("class/kfd/kfd/proc"))
	slices.Sort(compute)
	return fmt.Sprint(count, modules, ok, compute)
}
