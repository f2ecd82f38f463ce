package selection

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
)

// An unconfirmed selection is one until reboot with a deadline, also if its confirmation makes it permanent. So the
// next boot applies the former selection.

// SelectUnconfirmed selects the profile until the deadline, which is after that time. If another unconfirmed selection
// exists, this one replaces it, and the selection before that one stays the former one.
func SelectUnconfirmed(p config.Paths, name string, within time.Duration, permanent bool) error {
	if err := withLock(p, func() error { return selectUnconfirmed(p, name, within, permanent) }); err != nil {
		return fmt.Errorf("cannot select profile %s until it is confirmed: %w", source.QuoteShort(name), err)
	}
	return nil
}

func selectUnconfirmed(p config.Paths, name string, within time.Duration, permanent bool) error {
	if !config.ValidConfirmWindow(within) {
		return fmt.Errorf("nothing was changed: the time to confirm is out of range (found %s, want %s)", within, config.ConfirmWindows)
	}
	if permanent { // so that the confirmation does not fail
		if _, _, err := preparePersistent(p, name); err != nil {
			return err
		}
	}
	terms := fmt.Sprintf("%s = %s\n%s = %s\n%s = %t\n",
		config.KeyConfirmBy, source.Quote(time.Now().Add(within).UTC().Format(time.RFC3339Nano)),
		config.KeyConfirmWithin, source.Quote(within.String()), config.KeyPermanent, permanent)
	if former := passing(p); former != "" {
		terms += config.KeyOtherwise + " = " + source.Quote(former) + "\n"
	}
	return selectRuntime(p, name, terms)
}

// passing returns the confirmed selection until reboot, "" if there is none.
func passing(p config.Paths) string {
	cfg, err := config.Load(p)
	switch {
	case err != nil: // selectRuntime reports it, unless the selection until reboot is the error
		return ""
	case cfg.Unconfirmed != nil:
		return cfg.Unconfirmed.Otherwise
	case strings.HasPrefix(cfg.Source, p.RuntimeSelection()+":"):
		return config.OrNone(cfg.Selected)
	}
	return ""
}

// ErrNoneUnconfirmed is returned by [Confirm] if no selection has to be confirmed.
var ErrNoneUnconfirmed = errors.New("no selection has to be confirmed")

// Confirm keeps the unconfirmed selection, and returns it. If profile is not "", the selection has to be of this
// profile.
func Confirm(p config.Paths, profile string) (kept config.Unconfirmed, err error) {
	err = withLock(p, func() error {
		cfg, err := config.Load(p)
		switch {
		case err != nil:
			return fmt.Errorf("nothing was changed: %w", err)
		case cfg.Expired != nil:
			return fmt.Errorf("%w: %s", ErrNoneUnconfirmed, cfg.Ended)
		case cfg.Unconfirmed == nil:
			return ErrNoneUnconfirmed
		case profile != "" && config.OrEmpty(profile) != cfg.Unconfirmed.Profile:
			return fmt.Errorf("%w for profile %s (found %s)", ErrNoneUnconfirmed, profile, config.OrNone(cfg.Unconfirmed.Profile))
		}
		kept = *cfg.Unconfirmed
		if kept.Permanent {
			return selectPersistent(p, config.OrNone(kept.Profile))
		}
		return selectRuntime(p, config.OrNone(kept.Profile), "")
	})
	if err != nil && !errors.Is(err, ErrNoneUnconfirmed) {
		err = fmt.Errorf("cannot confirm the selection: %w", err)
	}
	return kept, err
}

// EndRuntime removes what has ended of a selection until reboot, see [config.Config.Ended].
func EndRuntime(p config.Paths) error {
	return withLock(p, func() error {
		cfg, err := config.Load(p)
		if err != nil || cfg.Ended == "" {
			return err // another selection has replaced it
		}
		if u := cfg.Expired; u != nil && u.Otherwise != "" {
			return selectRuntime(p, u.Otherwise, "")
		}
		return ClearRuntime(p)
	})
}
