package gpu

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// WaitUsage returns nil when wanted accepts the usage, or ctx's error.
//
// The drivers send no event when their use changes. WaitUsage polls their counters, which is
// cheap, and scans the open files only after a change.
func (n *Node) WaitUsage(ctx context.Context, wanted func(Usage) bool) error {
	tick := time.NewTicker(20 * n.pollInterval)
	defer tick.Stop()
	for last := ""; ; {
		if now := n.usageFingerprint(); now != last {
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
func (n *Node) usageFingerprint() string {
	var b strings.Builder
	there, err := n.present()
	if err != nil {
		there = n.vendors
	}
	for _, v := range there {
		fmt.Fprintln(&b, v.UsageFingerprint())
	}
	return b.String()
}
