package change

import (
	"context"
	"fmt"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/plan"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
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
	how, err := how.of(ctx, h, given, clearing)
	if err != nil {
		return err
	}
	want := ""
	if len(given) > 0 {
		want = given[0]
	}
	if how.confirm > 0 {
		noteFormer(ctx, h, con)
	}
	return follow(ctx, h, con, want, how, func() error {
		switch paths := config.DefaultPaths(h.Root); {
		case clearing:
			return selection.ClearRuntime(paths)
		case len(given) > 0 && how.confirm > 0:
			return selectUnconfirmed(h, con, given[0], how.confirm, false)
		case len(given) > 0:
			return selection.SelectRuntime(paths, given[0])
		}
		return nil
	})
}

// of returns the manner of a command with its profile, if it selects one without its name: --clear, and the
// options that concern the selected profile. It refuses a manner that is not possible.
func (m manner) of(ctx context.Context, h *host.Host, given []string, clearing bool) (manner, error) {
	if len(given) == 0 && !clearing && m == (manner{}) {
		return m, nil
	}
	cfg, err := h.Config()
	if err != nil {
		return m, fmt.Errorf("nothing was changed: %w", err)
	}
	switch {
	case clearing:
		m.profile = config.OrNone(cfg.Persistent)
	case len(given) == 0:
		m.profile = config.OrNone(cfg.Selected)
	default:
		m.profile = given[0]
	}
	if no := m.inseparable(ctx, h, cfg); no != nil {
		return m, fmt.Errorf("nothing was changed: %s", no.Message())
	}
	return m, nil
}

// inseparable returns an error if GPUs have to change one after another, and cannot.
func (m manner) inseparable(ctx context.Context, h *host.Host, cfg *config.Config) *runstate.Error {
	if !m.rolling {
		return nil
	}
	if !cfg.Rounds() {
		return (&daemon.Scope{}).Inseparable()
	}
	if m.profile == config.None {
		return nil
	}
	_, d, _, err := plan.Compare(ctx, h, client.FromDaemon(h), m.profile)
	if err != nil || len(d.Steps) == 0 { // the daemon reports the error
		return nil
	}
	return plan.Scope(h, cfg, d).Inseparable()
}
