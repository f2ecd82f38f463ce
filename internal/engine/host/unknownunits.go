package host

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/engine/config"
)

// UnknownUnits returns a warning for each unit or pattern of a budget, a reservation, a [[client]] or of the
// observers that matches no unit. Without systemd, as in a chroot, it returns none.
func UnknownUnits(ctx context.Context, h *Host, cfg *config.Config) []string {
	type entry struct{ name, text string }
	var entries []entry
	for _, b := range cfg.Budgets {
		for _, pattern := range b.Units {
			entries = append(entries, entry{pattern, fmt.Sprintf("%s: budget: units: %s matches no unit: it limits nothing", b.Source, pattern)})
		}
	}
	for _, r := range cfg.Reservations {
		if r.Unit != "" {
			entries = append(entries, entry{r.Unit, fmt.Sprintf("%s: unit: %s is not installed", r.Source, r.Unit)})
		}
	}
	for _, unit := range cfg.Observers {
		entries = append(entries, entry{unit, fmt.Sprintf("guard: observers: %s is not installed", unit)})
	}
	if !h.Here() || len(entries) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return nil
	}
	defer conn.Close()
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	unknown, err := conn.Units.Unknown(ctx, names)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range entries {
		if slices.Contains(unknown, e.name) && !slices.Contains(out, e.text) {
			out = append(out, e.text)
		}
	}
	return out
}
