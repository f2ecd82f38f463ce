package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
)

// useUnconfirmed is dcm use with --confirm, such as "cpx --confirm 30s". The caller holds mu.
func (w *world) useUnconfirmed(argument string) error {
	profile, window, _ := strings.Cut(argument, " --confirm ")
	within, err := time.ParseDuration(window)
	if cfg, broken := w.config(); err != nil || broken != nil || w.refuses(cfg, runstate.Selection{Profile: profile}) {
		return err
	}
	w.checks.commanded(false)
	w.command("dcm use "+argument, &runstate.Selection{Profile: profile}, func() {
		if now, _ := w.effective(); now != nil {
			w.files.selection = unconfirmed(now, profile, within)
			w.configEvent()
		}
	})
	return nil
}

// unconfirmed is the text of a selection until it is confirmed, as package selection writes it.
func unconfirmed(now *config.Config, profile string, within time.Duration) string {
	text := untilReboot(profile, config.OrNone(now.Persistent))
	text += fmt.Sprintf("%s = %q\n%s = %q\n%s = true\n", config.KeyConfirmBy, time.Now().Add(within).UTC().Format(time.RFC3339Nano),
		config.KeyConfirmWithin, within, config.KeyPermanent)
	former := ""
	switch u := now.Unconfirmed; {
	case u != nil:
		former = u.Otherwise
	case strings.HasSuffix(now.Source, config.SelectionFile+":1"):
		former = config.OrNone(now.Selected)
	}
	if former != "" {
		text += fmt.Sprintf("%s = %q\n", config.KeyOtherwise, former)
	}
	return text
}

// confirm is dcm confirm. The caller holds mu.
func (w *world) confirm() {
	cfg, err := w.config()
	if err != nil || cfg.Unconfirmed == nil {
		return
	}
	w.files.profile, w.files.selection = config.OrNone(cfg.Unconfirmed.Profile), ""
	w.edit()
}

// endSelection removes what has ended of a selection until reboot, as package selection does. The caller holds mu.
func (w *world) endSelection(cfg *config.Config) {
	switch {
	case cfg.Ended == "":
	case cfg.Expired != nil && cfg.Expired.Otherwise != "":
		w.files.selection = untilReboot(cfg.Expired.Otherwise, config.OrNone(cfg.Persistent))
		w.configEvent()
	default:
		w.files.selection = ""
		w.configEvent()
	}
}

// withDeadlines makes some selections of a random history unconfirmed ones, and some waits confirmations.
func withDeadlines(actions []string, r *rand.Rand) {
	pending := false
	for i, action := range actions {
		switch {
		case strings.HasPrefix(action, "use ") && r.IntN(3) == 0:
			actions[i] += fmt.Sprintf(" --confirm %ds", 5+r.IntN(60))
			pending = true
		case strings.HasPrefix(action, "wait ") && pending && r.IntN(4) == 0:
			actions[i], pending = "confirm", false
		}
	}
}

// unserved reports a selection that the daemon has not ended at its deadline. The caller holds mu.
func (c *checks) unserved() {
	cfg, err := c.w.config()
	if err != nil {
		return // nothing is selected while the configuration has an error
	}
	state := c.w.files.state
	switch {
	case cfg.Expired != nil:
		c.violated(deadlineServed, "%s", cfg.Ended)
	case state != nil && state.Profile != cfg.Selected:
		c.violated(deadlineServed, "profile %s is selected, the daemon has %s", cfg.Selected, state.Profile)
	}
}
