package systemd

import (
	"context"
	"slices"
)

// maxOrdered limits the number of units that a search for an order reads.
const maxOrdered = 2000

// OrderingPath returns the units through which the unit is ordered after one of the others
// (After=, or Before= of the other unit), from the unit to the first of the others; nil if there
// is no such order. If there is one, the others must not wait for the unit.
func (d Dependencies) OrderingPath(ctx context.Context, unit string, others []string) ([]string, error) {
	earlier, err := d.earlier(ctx, others)
	if err != nil {
		return nil, err
	}
	from := map[string]string{unit: ""}
	for level := []string{unit}; len(level) > 0 && len(from) < maxOrdered; {
		after := make([][]string, len(level))
		err := each(len(level), func(i int) error {
			return d.t.property(ctx, level[i], unitInterface, "After", &after[i])
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
					return pathTo(from, name), nil
				}
				next = append(next, name)
			}
		}
		level = next
	}
	return nil, nil
}

// earlier returns, by unit, which of the others have it in their Before=. PID 1 does not show
// these in the unit's After= while they are not loaded.
func (d Dependencies) earlier(ctx context.Context, others []string) (map[string][]string, error) {
	before := make([][]string, len(others))
	err := each(len(others), func(i int) error {
		return d.t.property(ctx, others[i], unitInterface, "Before", &before[i])
	})
	out := make(map[string][]string)
	for i, names := range before {
		for _, name := range names {
			out[name] = append(out[name], others[i])
		}
	}
	return out, err
}

// pathTo returns the path of the search to a unit.
func pathTo(from map[string]string, to string) []string {
	var out []string
	for name := to; name != ""; name = from[name] {
		out = append(out, name)
	}
	slices.Reverse(out)
	return out
}

// OrderedAfter reports whether a restart of first and the others starts the unit only after
// first: by After=, or by Before= of the other unit, directly or through the others. Units
// outside of the restart have no job and order nothing.
func (d Dependencies) OrderedAfter(ctx context.Context, unit, first string, others []string) (bool, error) {
	seen := []string{unit}
	for i := 0; i < len(seen) && i < maxOrdered; i++ {
		var after []string
		if err := d.t.property(ctx, seen[i], unitInterface, "After", &after); err != nil {
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
