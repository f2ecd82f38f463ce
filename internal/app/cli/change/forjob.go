package change

import (
	"context"
	"errors"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// ForJob applies a profile until reboot, since a job must not change the administrator's files. If that fails,
// it selects the previous profile again: nothing waits for a retry.
func ForJob(ctx context.Context, h *host.Host, con *console.Console, profile string) error {
	before, err := h.Config()
	if err != nil {
		return err
	}
	if err := CheckProfile(ctx, h, []string{profile}); err != nil {
		return err
	}
	err = Follow(ctx, h, con, profile, func() error { return selection.SelectRuntime(config.DefaultPaths(h.Root), profile) })
	if err == nil || exitcode.Code(err) == exitcode.Overtaken { // another selection stays
		return err
	}
	return errors.Join(err, reselect(h, before))
}

// AfterJob ends a selection until reboot, and applies the permanent one.
func AfterJob(ctx context.Context, h *host.Host, con *console.Console) error {
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	return Follow(ctx, h, con, config.OrNone(cfg.Persistent), func() error { return selection.ClearRuntime(config.DefaultPaths(h.Root)) })
}

// reselect selects the previous profile again; the daemon notices it.
func reselect(h *host.Host, before *config.Config) error {
	now, err := h.Config()
	if err != nil || now.Source == before.Source && now.Selected == before.Selected {
		return err
	}
	paths := config.DefaultPaths(h.Root)
	switch {
	case !host.UntilReboot(h, before):
		return selection.ClearRuntime(paths)
	case before.Selected == "":
		return selection.SelectRuntime(paths, config.None)
	}
	return selection.SelectRuntime(paths, before.Selected)
}
