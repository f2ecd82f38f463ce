package systemd

import (
	"context"
	"slices"
)

// most bounds how many units are looked at for their order.
const most = 2000

// OrderingPath returns how the unit is ordered after one of the others (After=, and the
// Before= of the other end), from the unit to the first of them that is reached; nil
// if it waits for none. Then these must not wait for the unit.
func (c *Conn) OrderingPath(ctx context.Context, unit string, others []string) ([]string, error) {
	earlier, err := c.earlier(ctx, others)
	if err != nil {
		return nil, err
	}
	from := map[string]string{unit: ""}
	for level := []string{unit}; len(level) > 0 && len(from) < most; {
		after := make([][]string, len(level))
		err := each(len(level), func(i int) error {
			return c.property(ctx, level[i], unitInterface, "After", &after[i])
		})
		if err != nil {
			return nil, err
		}
		var next []string
		for i, names := range after {
			for _, name := range append(names, earlier[level[i]]...) {
				if _, seen := from[name]; seen {
					continue
				}
				from[name] = level[i]
				if slices.Contains(others, name) {
					return way(from, name), nil
				}
				next = append(next, name)
			}
		}
		level = next
	}
	return nil, nil
}

// earlier returns by unit which of the others are ordered before it, by their own Before=:
// PID 1 does not show that as an After= of the unit while it has the other one not loaded.
func (c *Conn) earlier(ctx context.Context, others []string) (map[string][]string, error) {
	before := make([][]string, len(others))
	err := each(len(others), func(i int) error {
		return c.property(ctx, others[i], unitInterface, "Before", &before[i])
	})
	out := make(map[string][]string)
	for i, names := range before {
		for _, name := range names {
			out[name] = append(out[name], others[i])
		}
	}
	return out, err
}

// way goes back to where the search began.
func way(from map[string]string, to string) []string {
	var out []string
	for name := to; name != ""; name = from[name] {
		out = append(out, name)
	}
	slices.Reverse(out)
	return out
}
