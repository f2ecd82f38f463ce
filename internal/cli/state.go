package cli

import (
	"context"

	"dcm/internal/bus"
	"dcm/internal/host"
	"dcm/internal/report"
)

// daemonState is what the daemon has written down, or else what it shows on the
// bus: the file may not be there for this user or in this mount namespace. It is
// nil if the daemon has told nothing since the boot.
func daemonState(ctx context.Context, h *host.Host) (*report.State, error) {
	s, err := report.ReadState(h.Runtime())
	if !h.Here() || err == nil && s != nil {
		return s, err
	}
	if told, lost := heard(ctx); lost == nil {
		return told, nil
	}
	return s, err
}

// heard is the daemon's state as the bus tells it.
func heard(ctx context.Context) (*report.State, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
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
