package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"dcm/internal/bus"
	"dcm/internal/exit"
	"dcm/internal/host"
)

// remote reports whether a command has to ask the daemon for what it may not do
// itself.
func remote(h *host.Host) bool { return os.Geteuid() != 0 && h.Here() }

// followRemote has the daemon do what ask asks of it, if polkit lets this user, and
// shows the run until it is over.
func followRemote(ctx context.Context, h *host.Host, con *Console, what string, ask func(*bus.Client) (string, error)) error {
	c, err := bus.Dial(ctx, bus.SystemBus)
	if err != nil {
		return byRootOnly(what, err)
	}
	defer c.Close()
	return watchRun(ctx, h, con, func() error {
		_, err := ask(c)
		return err
	}, func(view *progress, err error) error {
		var config *bus.ConfigError
		switch {
		case ctx.Err() != nil:
			return errors.New("no longer following; the run goes on, see dcm status")
		case errors.Is(err, bus.ErrAbsent), errors.Is(err, bus.ErrDenied):
			return byRootOnly(what, err)
		case errors.As(err, &config):
			return exit.With(exit.Config, err)
		case err != nil:
			return err
		}
		return concluded(ctx, h, con, view, nil)
	})
}

// byRootOnly says why the way without root did not lead anywhere.
func byRootOnly(what string, err error) error {
	return exit.With(exit.Failed, fmt.Errorf("%s needs root, or to be allowed by polkit: %w; run it with sudo", what, err))
}
