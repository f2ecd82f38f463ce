package change

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/history"
	"dcm/internal/engine/host"
)

// UndoCmd returns dcm undo. show prints the plan of a profile. Its error has no text if it printed one.
func UndoCmd(h *host.Host, con *console.Console, jobs Scheduler, show func(ctx context.Context, profile string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo [--yes]",
		Short: "Select the profile again that was selected before",
		Long: `Select the profile again that was on the GPUs before the selected one, show its plan, ask,
and apply it. 'dcm history' marks that profile. A second call returns to the first profile.
A profile that replaces one until reboot is also selected until reboot. If the selection
has to be confirmed, the command ends it before its deadline.`,
		Args: console.Args(cobra.NoArgs),
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := h.NeedRoot("selecting a profile"); err != nil {
			return err
		}
		to, err := undone(h)
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		con.Println(to.String())
		if err := agreed(c.Context(), con, to, show, *yes); err != nil {
			return err
		}
		check := jobCheck{h, con, jobs}
		if err := check.refuse(c.Context(), to.profile); err != nil {
			return err
		}
		return to.apply(c.Context(), h, con)
	}
	return cmd
}

// agreed shows the plan and asks whether to make the change. A plan that would be refused is no error, since the change
// itself reports why, with its own exit status.
func agreed(ctx context.Context, con *console.Console, to former, show func(context.Context, string) error, yes bool) error {
	if to.profile != config.None {
		if err := show(ctx, to.profile); err != nil && err.Error() != "" {
			return err
		}
	}
	if yes {
		return nil
	}
	agreed, err := con.Ask(ctx, "Make this change?")
	if err == nil && !agreed {
		err = errors.New("nothing was changed")
	}
	return err
}

// period is how long a selection lasts.
type period string

const (
	permanently period = "permanently"
	untilReboot period = "until reboot"
	cleared     period = "permanently, as it is" // the end of a selection until reboot selects it
)

// former is the selection to return to.
type former struct {
	profile string // or [config.None]
	lasts   period
}

func (f former) String() string {
	if f.profile == config.None {
		return "Select no profile, as before."
	}
	return fmt.Sprintf("Select profile %s again, %s.", f.profile, f.lasts)
}

func (f former) apply(ctx context.Context, h *host.Host, con *console.Console) error {
	switch f.lasts {
	case cleared:
		return applyNow(ctx, h, con, nil, true, manner{})
	case untilReboot:
		return applyNow(ctx, h, con, []string{f.profile}, false, manner{})
	}
	return use(ctx, h, con, f.profile, 0)
}

// undone returns the selection before the present one.
func undone(h *host.Host) (former, error) {
	cfg, err := h.Config()
	if err != nil {
		return former{}, err
	}
	runs, err := host.History(h)
	if err != nil && cfg.Unconfirmed == nil {
		return former{}, err
	}
	to := formerOf(cfg, host.UntilReboot(h, cfg), history.Former(runs, cfg.Selected, cfg.Has))
	if to == (former{}) {
		return to, errors.New("the history has no other profile\nhint: dcm use PROFILE selects one; see dcm profiles")
	}
	return to, nil
}

// formerOf returns the selection before the present one, zero if it is not known. passing is whether the present
// one ends with the boot; runs are those of [history.Former].
func formerOf(cfg *config.Config, passing bool, runs []history.Entry) former {
	if u := cfg.Unconfirmed; u != nil && u.Otherwise == "" {
		return former{config.OrNone(u.Former), cleared}
	} else if u != nil {
		return former{config.OrNone(u.Former), untilReboot}
	}
	if len(runs) == 0 {
		return former{}
	}
	switch profile := runs[0].Profile; {
	case passing && profile == cfg.Persistent:
		return former{profile, cleared}
	case passing:
		return former{profile, untilReboot}
	default:
		return former{profile, permanently}
	}
}
