package systemd

import (
	"context"
	"slices"
)

// Frozen tells whether a unit is frozen, or about to be (systemctl freeze, or its slice):
// systemd does not stop it then.
func (c *Conn) Frozen(ctx context.Context, unit string) (bool, error) {
	var state string
	err := c.property(ctx, unit, unitInterface, "FreezerState", &state)
	return err == nil && state != "running" && state != "thawing", err
}

// OrderedAfter tells whether a restart of first that restarts the others too starts a unit
// among them only when first is done: by After=, and Before= of the other end, itself or
// by way of others. A unit that has no job orders nothing.
func (c *Conn) OrderedAfter(ctx context.Context, unit, first string, others []string) (bool, error) {
	seen := []string{unit}
	for i := 0; i < len(seen) && i < most; i++ {
		var after []string
		if err := c.property(ctx, seen[i], unitInterface, "After", &after); err != nil {
			return false, err
		}
		if slices.Contains(after, first) {
			return true, nil
		}
		for _, name := range after {
			if slices.Contains(others, name) && !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
		}
	}
	return false, nil
}
