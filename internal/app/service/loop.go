package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"dcm/internal/app/reservations"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/filelock"
)

// loop returns the loop of the daemon, which is ready when it has sent READY=1.
func (s *server) loop(ctx context.Context) *daemon.Daemon {
	h, log := s.host, s.log
	return &daemon.Daemon{
		Load:      func() (daemon.Settings, error) { return s.load(ctx) },
		LastGood:  s.config.lastGood,
		Stale:     func(settings daemon.Settings) ([]string, error) { return stale(h, settings) },
		Unwritten: s.config.unwritten,
		Reserve: func(ctx context.Context, settings daemon.Settings) (bool, error) {
			return reservations.Stale(ctx, h, s.config.reservations(), settings.Selected, log)
		},
		Unmet:    func() bool { return reservation.Unmet(h) },
		Dial:     dialPID1,
		DialWait: dialToWait,
		Busy:     func() (bool, error) { return filelock.Held(h.Locks().Run()) },
		HoldGate: func() (func(), error) { return filelock.Lock(h.Locks().Gate()) },
		LastRun:  func() (*runstate.Run, error) { return runstate.ReadRun(h.Runtime()) },
		Save:     func(state runstate.State) error { return s.save(ctx, state) },
		Fit:      func(units []string) []string { return host.DiscoverableUnits(h, units) },
		Include:  include(h),
		Withheld: runstate.WithheldIn(h.Runtime()),
		GPUs:     watched{h, s.node, &s.status.looked, s.config.get, s.acl, s.clients.found}, Use: gpuUse{s.node}, Explain: apply.Explain,
		Host:   rebooter{h, reboots(h), keeping(h).Lasting},
		Rearm:  s.events.watches.Rearm,
		Notify: watchdogHook{s.notify, s.metrics, s.memory.nudge}, Lifecycle: reloadHook{s.notify, s.memory.nudge}, Log: log, Notes: notes{h, log},
		Changed: s.events.changed, Devices: s.events.devices, Hangup: s.events.hangup, Ticks: ticks(s.notify.WatchdogInterval()), Requests: s.requests,
	}
}

// save saves the daemon's state and publishes it. The state of the clients comes first, so that a command that
// waits for the end of a run finds it.
func (s *server) save(ctx context.Context, state runstate.State) error {
	s.clients.saved(state)
	return s.status.save(ctx, state)
}

// load reads the configuration, and applies the parts of it that are not the loop's.
func (s *server) load(ctx context.Context) (daemon.Settings, error) {
	settings, err := s.config.load()
	if why := s.events.watches.Polling(); why != nil {
		settings.Warnings = append(slices.Clip(settings.Warnings), polling(why))
	}
	s.metrics.configure(s.config.get().Metrics)
	s.agents.set(ctx, s.config.get().Agent)
	if err == nil && !settings.Include {
		err = runstate.WriteDiscovered(s.host.Runtime(), nil)
	}
	if err == nil && settings.Reboot {
		if err := keeping(s.host).Testify(); err != nil {
			s.log.Warn(err.Error()) // a reboot may be refused for it
		}
	}
	return settings, err
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
