// Package service puts together what systemd runs: the daemon, the oneshot and the
// generator, from the parts of a host. Its end is an exit code; it answers nobody.
package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
)

// Daemon is what dcm.service runs, until ctx ends.
func Daemon(ctx context.Context, h *host.Host, log *slog.Logger) error {
	if err := h.NeedRoot("the daemon"); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := newServer(ctx, h, log)
	if err != nil {
		return err
	}
	defer s.stop(end)
	s.startTasks(ctx)
	err = s.loop(ctx).Run(ctx, initial(h, log))
	// After a failed start the status has the reason.
	last, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	s.status.caughtUp(last)
	if err == nil {
		s.metrics.stop()
	}
	return exitStatus(err)
}

// initial is what the daemon begins with: what the one before it in this boot has
// left, under its own name.
func initial(h *host.Host, log *slog.Logger) runstate.State {
	var s runstate.State
	boot := h.BootID()
	last, err := runstate.ReadState(h.Runtime())
	if err != nil {
		log.Warn(err.Error()) // it is about to be replaced
	} else if last != nil && last.Boot == boot {
		s = *last
	}
	s.Program, s.PID, s.Boot = h.Version, os.Getpid(), boot
	return s
}

// ticks paces the watchdog at half its interval, as sd_watchdog_enabled(3) asks.
func ticks(interval time.Duration) <-chan time.Time {
	if interval == 0 {
		return nil
	}
	return time.Tick(interval / 2)
}

// exitStatus turns the reason of a failed start into an exit code. The reason itself
// is in the journal already; what remains to be said is for systemctl status.
func exitStatus(err error) error {
	var broken *daemon.ConfigError
	var failed *daemon.StartError
	switch {
	case errors.As(err, &broken):
		return exitcode.With(exitcode.Config, nil)
	case errors.As(err, &failed) && failed.Reason.Transient:
		return exitcode.With(exitcode.Transient, nil)
	case errors.As(err, &failed):
		return exitcode.With(exitcode.Permanent, nil)
	}
	return err
}
