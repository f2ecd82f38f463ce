package client

import (
	"context"
	"strings"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
)

// State returns the state that the daemon wrote, or else the one on the bus: this user or
// mount namespace may not see the file. It is nil if the daemon wrote none since boot.
func State(ctx context.Context, h *host.Host) (*runstate.State, error) {
	s, err := runstate.ReadState(h.Runtime())
	if !h.Here() || err == nil && s != nil {
		return s, err
	}
	if state, lost := DaemonState(ctx, h); lost == nil {
		return state, nil
	}
	return s, err
}

// DaemonState returns the daemon's state from the bus. The file may be older, for example on a
// full file system.
func DaemonState(ctx context.Context, h *host.Host) (*runstate.State, error) {
	var m dbusapi.Manager
	err := readDaemon(ctx, h, func(ctx context.Context, c *dbusapi.Client) (err error) {
		m, err = c.Manager(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &runstate.State{Version: runstate.Version, Program: m.Version, Phase: runstate.Phase(m.State), Since: m.Since,
		Profile: m.Selected, Source: m.Source, Warnings: m.Warnings, Retry: m.Retry, Config: strings.Join(m.Problems, "\n")}
	if m.Error != "" {
		s.Error = &runstate.Error{Text: m.Error, Hint: m.Hint, Transient: s.Phase == runstate.Waiting}
	}
	return s, nil
}
