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

// How long polkit may take to decide: by its rules, and with a prompt for a password.
const (
	polkitTimeout       = 25 * time.Second
	polkitPromptTimeout = 2 * time.Minute
)

// authorise returns an error unless the caller is root or polkit allows the action. Without
// polkit only root is allowed.
//
// polkit gets the caller's unique name on the bus, not its PID: another process may have the PID by
// the time of the check.
func (h *handler) authorise(c call, action string, details map[string]string) (Caller, error) {
	if c.who.uid != 0 {
		// polkit's prompt shows the name to the administrator, so it must be the name of a
		// profile and not any text of the caller.
		if profile, ok := details["profile"]; ok {
			if err := h.control.Profiles.Known(profile); err != nil {
				return Caller{}, toBusError(err)
			}
		}
		if err := checkPolkit(c, action, details); err != nil {
			h.rejected(c, slog.LevelWarn, action, err)
			return Caller{}, err
		}
	}
	h.log.Info("request authorised", "action", action, "uid", c.who.uid, "profile", details["profile"])
	return c.caller(), nil
}

// rejected logs a rejected request, at most once a minute for each user.
func (h *handler) rejected(c call, level slog.Level, action string, reason error) {
	suppressed, log := h.limiter.Rejected(c.who.owner)
	if !log {
		return
	}
	args := []any{"action", action, "uid", c.who.uid, "reason", reason}
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	h.log.Log(c.conn.Context(), level, "request rejected", args...)
}

// kindOf returns the kind function of a method all of whose calls are of kind k.
func kindOf(k admission.Kind) func(call) admission.Kind {
	return func(call) admission.Kind { return k }
}

// identify determines the caller, and counts the call for its user.
func (h *handler) identify(c *call) error {
	ctx, cancel := context.WithTimeout(c.context(), polkitTimeout)
	defer cancel()
	var err error
	if c.who, err = h.caller(ctx, *c); err != nil {
		return busError(errorDenied, fmt.Sprintf("cannot determine the caller: %v", sanitize.Error(err)))
	}
	return c.received.Identify(c.who.owner)
}

// admit applies the limits of package admission before the method does any work. The call ends with c.leave.
func (h *handler) admit(c *call, kind admission.Kind) (err error) {
	ctx, cancel := context.WithTimeout(c.context(), polkitTimeout)
	defer cancel()
	var leave func()
	if c.waiting = c.wantsToWait() && c.mayLease(h.control.Leases); c.waiting {
		leave, err = h.limiter.Join(ctx, c.who.owner, kind)
		c.received.Leave() // it counts as a waiting request
	} else {
		leave, err = h.limiter.Enter(ctx, c.who.owner, kind)
	}
	if err == nil {
		c.leave = sync.OnceFunc(leave)
	}
	return err
}

// subject is polkit's description of the caller.
type subject struct {
	Kind    string
	Details map[string]dbus.Variant
}

// checkPolkit asks polkit for its decision. The bus starts polkit if it is installed.
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
		return busError(errorDenied, "only root may do this (polkit is not installed)")
	case err != nil:
		return busError(errorDenied, fmt.Sprintf("only root may do this: polkit does not answer: %v", sanitize.Error(err)))
	case result.Authorised:
		return nil
	case result.Challenge && !interactive:
		return busError(errorInteractive, fmt.Sprintf("%s needs an administrator's password", action))
	case result.Challenge:
		return busError(errorDenied, fmt.Sprintf("%s needs an administrator's password, and no polkit agent is available to prompt for it", action))
	}
	return busError(errorDenied, fmt.Sprintf("polkit does not allow %s", action))
}

// isAbsent reports whether the called name has no owner and cannot be activated.
func isAbsent(err error) bool {
	var remote dbus.Error
	return errors.As(err, &remote) && (remote.Name == errorNoService || remote.Name == errorNoOwner)
}
