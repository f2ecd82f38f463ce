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

	// For is the work of an instance of a template, instead of Do.
	For func(ctx context.Context, h *host.Host, log *slog.Logger, instance string) error
}

// Works are those that units do, by the argument of dcm-service.
func Works() map[string]Work {
	return map[string]Work{
		"daemon":  {Unit: unitname.Daemon, Do: Daemon},
		"oneshot": {Unit: unitname.Apply, Do: Oneshot},
		"gate":    {Unit: unitname.Gate, Do: Gate},
		"change":  {Unit: unitname.Change, Do: Change},
		"reserve": {Unit: unitname.Reserve, Do: Reserve},
		"agent":   {Unit: unitname.Agent, Do: agentservice.Run},
		"make":    {Unit: unitname.Make, For: Make},
		"unmake":  {Unit: unitname.Make, For: Unmake},
		"clean":   {Unit: unitname.Clean, For: Clean},

		"clean-after": {Unit: unitname.Clean, For: CleanAfter}, // in a reserved service
	}
}

// Journal returns the journal's identifier for what the work logs.
func (w Work) Journal() string {
	return strings.TrimSuffix(strings.TrimSuffix(w.Unit, ".service"), "@")
}
