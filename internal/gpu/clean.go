package gpu

import (
	"context"
	"fmt"

	"dcm/internal/gpu/partition"
)

// Cleans reports whether the driver can clean the partitions of a GPU.
func (n *Node) Cleans(a partition.Address) bool { return n.cleaner(a) != nil }

// Clean cleans a partition, see [Cleaner].
func (n *Node) Clean(ctx context.Context, a partition.Address, index int) error {
	c := n.cleaner(a)
	if c == nil {
		return fmt.Errorf("cannot clean partition %d of %s: its driver does not support that", index, a)
	}
	return c.Clean(ctx, a, index)
}

func (n *Node) cleaner(a partition.Address) Cleaner {
	for _, v := range n.bus.vendors {
		if v.Cleaner != nil && v.Cleaner.Supports(a) {
			return v.Cleaner
		}
	}
	return nil
}
