package change

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/plan"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
	"dcm/internal/text"
)

// selectUnconfirmed selects a profile until its deadline.
func selectUnconfirmed(h *host.Host, con *console.Console, profile string, within time.Duration, permanent bool) error {
	err := selection.SelectUnconfirmed(config.DefaultPaths(h.Root), profile, within, permanent)
	if err == nil {
		announceDeadline(h, con)
	}
	return err
}

// announceDeadline prints what happens at the deadline, and how to confirm.
func announceDeadline(h *host.Host, con *console.Console) {
	cfg, err := h.Config()
	if err != nil || cfg.Unconfirmed == nil {
		return // it was replaced
	}
	u := cfg.Unconfirmed
	con.Printf("Profile %s is selected until %s (%s). To keep it: dcm confirm. Otherwise dcm then selects %s again.\n",
		config.OrNone(u.Profile), u.Deadline.Local().Format(time.TimeOnly), text.Duration(u.Within), config.OrNone(u.Former))
}

// noteFormer prints in which way the host after the deadline differs from the present one.
func noteFormer(ctx context.Context, h *host.Host, con *console.Console) {
	cfg, err := h.Config()
	if err != nil || cfg.Unconfirmed != nil {
		return
	}
	if cfg.Selected == "" {
		con.Note("no profile is selected now: at the deadline dcm selects none again, and leaves the GPUs as they are then")
		return
	}
	_, d, _, err := plan.Compare(ctx, h, client.FromDaemon(h), cfg.Selected)
	if err == nil && len(d.Steps) > 0 {
		con.Note(fmt.Sprintf("the GPUs do not match profile %s now: at the deadline dcm puts that profile on them, and not their present modes", cfg.Selected))
	}
}
