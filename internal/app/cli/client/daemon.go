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

// How long a command waits for a daemon that is starting: one that needs it, and one
// that can read the host by itself.
const (
	DaemonTimeout = 10 * time.Second
	lookTimeout   = host.DialTimeout
)

// onDaemon calls do with a connection to the daemon. Every command that needs the
// daemon calls it by this function, so that all wait, fail and exit alike.
func CallDaemon(ctx context.Context, h *host.Host, w dbusapi.RetryPolicy, do func(*dbusapi.Client) error) error {
	if !h.Here() {
		return errors.New("not for another root directory")
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

// readDaemon is onDaemon for a method that only reads. It takes no longer than such a
// method may take.
func readDaemon(ctx context.Context, h *host.Host, do func(context.Context, *dbusapi.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout+status.PartTimeout+host.DialTimeout)
	defer cancel()
	return CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: lookTimeout}, func(c *dbusapi.Client) error { return do(ctx, c) })
}
