package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
)

// Limits of the wait for a daemon that is starting: for a command that needs it, and for one
// that can read the host itself.
const (
	DaemonTimeout = 10 * time.Second
	lookTimeout   = host.DialTimeout
)

// CallDaemon calls do with a connection to the daemon. All commands that need the daemon use
// it, so that they wait, fail and exit in the same way.
func CallDaemon(ctx context.Context, h *host.Host, w dbusapi.RetryPolicy, do func(*dbusapi.Client) error) error {
	if !h.Here() {
		return host.ErrOtherRoot
	}
	w.Down = h.DaemonDown
	err := dbusapi.Call(ctx, dbusapi.SystemBus, w, do)
	switch {
	case errors.Is(err, dbusapi.ErrNotBack), errors.Is(err, dbusapi.ErrGone):
		return exitcode.With(exitcode.Transient, fmt.Errorf("%w; try again", err))
	case dbusapi.IsInsufficient(err), errors.Is(err, dbusapi.ErrCrowded):
		return exitcode.With(exitcode.Transient, err)
	}
	if _, overtaken := errors.AsType[*dbusapi.OvertakenError](err); overtaken {
		return exitcode.With(exitcode.Overtaken, err)
	}
	if _, config := errors.AsType[*dbusapi.ConfigError](err); config {
		return exitcode.With(exitcode.Config, err)
	}
	return err
}

// readDaemon is [CallDaemon] with the time limit of a method that only reads.
func readDaemon(ctx context.Context, h *host.Host, do func(context.Context, *dbusapi.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout+status.PartTimeout+host.DialTimeout)
	defer cancel()
	return CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: lookTimeout}, func(c *dbusapi.Client) error { return do(ctx, c) })
}
