package systemd

import (
	"context"
	"slices"
)

// Frozen reports whether a unit or its slice is frozen or being frozen (systemctl freeze).
// systemd does not stop a frozen unit.
func (c *Conn) Frozen(ctx context.Context, unit string) (bool, error) {
	var state string
	err := c.property(ctx, unit, unitInterface, "FreezerState", &state)
	return err == nil && state != "running" && state != "thawing", err
}

// OrderedAfter reports whether a restart of first and the others starts the unit only after
// first: by After=, or by Before= of the other unit, directly or through the others. Units
// outside of the restart have no job and order nothing.
func (c *Conn) OrderedAfter(ctx context.Context, unit, first string, others []string) (bool, error) {
	seen := []string{unit}
	for i := 0; i < len(seen) && i < maxOrdered; i++ {
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
