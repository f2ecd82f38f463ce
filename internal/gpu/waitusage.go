package gpu

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// WaitUsage returns when the usage is as wanted, or with ctx's error.
//
// What a driver counts tells nobody when it changes. So it is read every now and then,
// which costs next to nothing; only when it is another is everybody looked at.
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

// tallied is what the drivers tell of their use, to be compared.
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
