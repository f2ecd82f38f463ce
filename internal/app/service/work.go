package service

import (
	"context"
	"log/slog"
	"strings"

	"dcm/internal/app/agentservice"
	"dcm/internal/engine/host"
	"dcm/internal/linux/unitname"
)

// Work is what a unit does.
type Work struct {
	Unit string
	Do   func(context.Context, *host.Host, *slog.Logger) error
}

// Works are those that units do, by the argument of dcm-service.
func Works() map[string]Work {
	return map[string]Work{
		"daemon":  {unitname.Daemon, Daemon},
		"oneshot": {unitname.Apply, Oneshot},
		"gate":    {unitname.Gate, Gate},
		"change":  {unitname.Change, Change},
		"reserve": {unitname.Reserve, Reserve},
		"agent":   {unitname.Agent, agentservice.Run},
	}
}

// Journal returns the journal's identifier for what the work logs.
func (w Work) Journal() string { return strings.TrimSuffix(w.Unit, ".service") }
