package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"dcm/internal/bus"
	"dcm/internal/report"
)

// remote reports whether a command has to ask the daemon for what it may not do
// itself.
func (h *host) remote() bool { return os.Geteuid() != 0 && h.root == "/" }

// followRemote has the daemon do what ask asks of it, if polkit lets this user, and
// shows the run until it is over.
func followRemote(ctx context.Context, h *host, what string, ask func(*bus.Client) (string, error)) error {
	c, err := bus.Dial(ctx, bus.SystemBus)
	if err != nil {
		return h.byRootOnly(what, err)
	}
	defer c.Close()
	return watchRun(ctx, h, func() error {
		_, err := ask(c)
		return err
	}, func(view *progress, err error) error {
		var config *bus.ConfigError
		switch {
		case ctx.Err() != nil:
			return errors.New("no longer following; the run goes on, see dcm status")
		case errors.Is(err, bus.ErrAbsent), errors.Is(err, bus.ErrDenied):
			return h.byRootOnly(what, err)
		case errors.As(err, &config):
			return withCode(exitConfig, err)
		case err != nil:
			return err
		}
		return concluded(ctx, h, view, nil)
	})
}

// byRootOnly says why the way without root did not lead anywhere.
func (h *host) byRootOnly(what string, err error) error {
	return withCode(exitFailed, fmt.Errorf("%s needs root, or to be allowed by polkit: %w; run it with sudo", what, err))
}

// daemonState is what the daemon has written down, or else what it shows on the
// bus: the file may not be there for this user or in this mount namespace. It is
// nil if the daemon has told nothing since the boot.
func (h *host) daemonState(ctx context.Context) (*report.State, error) {
	s, err := report.ReadState(h.runtime())
	if h.root != "/" || err == nil && s != nil {
		return s, err
	}
	if told, lost := heard(ctx); lost == nil {
		return told, nil
	}
	return s, err
}

// heard is the daemon's state as the bus tells it.
func heard(ctx context.Context) (*report.State, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := bus.Dial(ctx, bus.SystemBus)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m, err := c.Manager(ctx)
	if err != nil {
		return nil, err
	}
	s := &report.State{Version: report.Version, Program: m.Version, Phase: report.Phase(m.State), Since: m.Since,
		Profile: m.Selected, Source: m.Source, Warnings: m.Warnings, Retry: m.Retry}
	if m.Error != "" {
		s.Error = &report.Error{Text: m.Error, Cure: m.Cure}
	}
	return s, nil
}
