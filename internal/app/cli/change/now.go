package change

import (
	"context"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
)

// applyNow selects a profile until the next boot, or ends such a selection, and applies.
func applyNow(ctx context.Context, h *host.Host, con *console.Console, given []string, clearing bool, how manner) error {
	if remote(h) && len(given) == 0 && !clearing && how == (manner{}) {
		return applyRemote(ctx, h, con)
	}
	if err := h.NeedRoot("applying a profile until reboot"); err != nil {
		return err
	}
	if len(given) > 0 && given[0] != config.None {
		if err := checkGiven(ctx, h, con, given); err != nil {
			return err
		}
	}
	want := ""
	if len(given) > 0 {
		want = given[0]
	}
	return follow(ctx, h, con, want, how, func() error {
		switch paths := config.DefaultPaths(h.Root); {
		case clearing:
			return selection.ClearRuntime(paths)
		case len(given) > 0:
			return selection.SelectRuntime(paths, given[0])
		}
		return nil
	})
}
