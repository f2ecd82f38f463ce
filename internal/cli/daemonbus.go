package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dcm/internal/account"
	"dcm/internal/bus"
	"dcm/internal/exit"
	"dcm/internal/host"
)

// How long a command waits for a daemon that is starting: one that needs it, and one
// that can read the host by itself.
const (
	daemonTimeout = 10 * time.Second
	lookTimeout   = host.DialTimeout
)

// onDaemon calls do with a connection to the daemon. Every command that needs the
// daemon calls it by this function, so that all wait, fail and exit alike.
func onDaemon(ctx context.Context, h *host.Host, w bus.Waiting, do func(*bus.Client) error) error {
	if !h.Here() {
		return errors.New("not for another root directory")
	}
	w.Down = h.DaemonDown
	err := bus.Call(ctx, bus.SystemBus, w, do)
	switch {
	case errors.Is(err, bus.ErrNotBack), errors.Is(err, bus.ErrGone):
		return exit.With(exit.Transient, fmt.Errorf("%w; try again", err))
	case bus.IsShort(err), errors.Is(err, bus.ErrCrowded):
		return exit.With(exit.Transient, err)
	}
	if _, overtaken := errors.AsType[*bus.OvertakenError](err); overtaken {
		return exit.With(exit.Overtaken, err)
	}
	if _, config := errors.AsType[*bus.ConfigError](err); config {
		return exit.With(exit.Config, err)
	}
	return err
}

// readDaemon is onDaemon for a method that only reads. It takes no longer than such a
// method may take.
func readDaemon(ctx context.Context, h *host.Host, do func(context.Context, *bus.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout+account.Patience+host.DialTimeout)
	defer cancel()
	return onDaemon(ctx, h, bus.Waiting{Limit: lookTimeout}, func(c *bus.Client) error { return do(ctx, c) })
}
