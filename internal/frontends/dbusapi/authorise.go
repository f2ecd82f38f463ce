package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/sanitize"
)

// How long polkit may take: to decide by itself, and to ask a person.
const (
	polkitTimeout       = 25 * time.Second
	polkitPromptTimeout = 2 * time.Minute
)

// authorise returns an error unless the caller may do what the action stands for:
// because it is root, or because polkit says so. Without polkit only root may.
//
// The caller is known by its unique name on the bus, never by its process id,
// which may be another process's by the time it is looked at.
func (s *Service) authorise(c call, action string, details map[string]string) (Caller, error) {
	if c.who.uid != 0 {
		// Whoever is to authorise it reads the name: it is one of a profile, and not
		// what anybody likes to have read.
		if profile, ok := details["profile"]; ok {
			if err := s.control.Known(profile); err != nil {
				return Caller{}, toBusError(err)
			}
		}
		if err := checkPolkit(c, action, details); err != nil {
			s.rejected(c, slog.LevelWarn, action, err)
			return Caller{}, err
		}
	}
	s.log.Info("asked over the bus", "action", action, "uid", c.who.uid, "profile", details["profile"])
	return c.caller(), nil
}

// rejected logs that a caller was not given what it asked for. Any user can have that
// happen as often as it likes, so each one is logged at most once a minute.
func (s *Service) rejected(c call, level slog.Level, action string, reason error) {
	suppressed, log := s.limiter.Rejected(c.who.owner)
	if !log {
		return
	}
	args := []any{"action", action, "uid", c.who.uid, "reason", reason}
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	s.log.Log(c.conn.Context(), level, "refused over the bus", args...)
}

// kindOf is the kind of a method whose calls are all of that kind.
func kindOf(k admission.Kind) func(call) admission.Kind {
	return func(call) admission.Kind { return k }
}

// admitted is a method that knows its caller, and lets no user crowd out others. Nothing is
// done for a call before it is admitted.
func (s *Service) admitted(kind func(call) admission.Kind, run func(call) ([]any, error)) func(call) ([]any, error) {
	return func(c call) ([]any, error) {
		ctx, cancel := context.WithTimeout(s.ctx(c), polkitTimeout)
		defer cancel()
		who, err := s.caller(ctx, c)
		if err != nil {
			return nil, busError(errorDenied, fmt.Sprintf("cannot determine the caller: %v", sanitize.Error(err)))
		}
		c.who = who
		defer who.process.Close()
		var leave func()
		if c.waiting = c.wantsToWait() && s.member(c); c.waiting {
			leave, err = s.limiter.Join(ctx, who.owner)
		} else {
			leave, err = s.limiter.Enter(ctx, who.owner, kind(c))
		}
		if err != nil {
			return nil, toBusError(err)
		}
		c.leave = sync.OnceFunc(leave)
		defer c.leave()
		return run(c)
	}
}

// subject is whom polkit is asked about.
type subject struct {
	Kind    string
	Details map[string]dbus.Variant
}

// checkPolkit asks polkit. The bus starts it if it is there and does not run.
func checkPolkit(c call, action string, details map[string]string) error {
	const allowUserInteraction = 1
	interactive := c.flags&dbus.FlagAllowInteractiveAuthorization != 0
	flags, limit := uint32(0), polkitTimeout
	if interactive {
		flags, limit = allowUserInteraction, polkitPromptTimeout
	}
	if details == nil {
		details = map[string]string{}
	}
	ctx, cancel := context.WithTimeout(c.conn.Context(), limit)
	defer cancel()
	var result struct {
		Authorised, Challenge bool
		Details               map[string]string
	}
	who := subject{"system-bus-name", map[string]dbus.Variant{"name": dbus.MakeVariant(c.sender)}}
	err := c.conn.Object(polkit, polkitPath).
		CallWithContext(ctx, polkitAuthority+".CheckAuthorization", 0, who, action, details, flags, "").
		Store(&result)
	switch {
	case isAbsent(err):
		return busError(errorDenied, "only root may do this: polkit, which could allow it to others, is not there")
	case err != nil:
		return busError(errorDenied, fmt.Sprintf("only root may do this: polkit cannot be asked: %v", sanitize.Error(err)))
	case result.Authorised:
		return nil
	case result.Challenge && !interactive:
		return busError(errorInteractive, fmt.Sprintf("an administrator's password is needed for %s", action))
	case result.Challenge:
		return busError(errorDenied, fmt.Sprintf("an administrator's password is needed for %s, and there was nobody to ask for it", action))
	}
	return busError(errorDenied, fmt.Sprintf("polkit does not allow %s", action))
}

// isAbsent reports whether nobody has the name that was called, nor can be started
// for it.
func isAbsent(err error) bool {
	var remote dbus.Error
	return errors.As(err, &remote) && (remote.Name == errorNoService || remote.Name == errorNoOwner)
}
