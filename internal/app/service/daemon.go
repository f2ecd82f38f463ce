// Package service puts together what systemd runs: the daemon, the oneshot and the
// generator, from the parts of a host. Its end is an exit code; it answers nobody.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"dcm/internal/app/host"
	"dcm/internal/app/reservations"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/watch"
)

// configDebounce is how long the configuration must have been left alone before it is
// read: editors and configuration management write in several steps.
const configDebounce = 200 * time.Millisecond

// configMaxDelay is for how long edits that do not pause may put that off: each run restarts
// the clients, and what is between two edits is nobody's intention.
const configMaxDelay = 15 * time.Second

// deviceDebounce is the same for devices: a driver tells of each GPU with many events.
const deviceDebounce = 100 * time.Millisecond

// takeOver makes the profile of dcm.toml of what an older dcm has selected in a drop-in.
func takeOver(h *host.Host, log *slog.Logger) {
	done, err := selection.MigrateSelection(config.DefaultPaths(h.Root))
	switch {
	case err != nil:
		log.Warn(err.Error()) // it counts as before
	case done:
		log.Info("the selection that an older dcm wrote as a drop-in is now the profile of dcm.toml")
	}
}

// Daemon is what dcm.service runs, until ctx ends.
func Daemon(ctx context.Context, h *host.Host, log *slog.Logger) error {
	if err := h.NeedRoot("the daemon"); err != nil {
		return err
	}
	acl := newDeviceACL(h, log) // first: what comes after it is new to the daemon
	ctx, end := context.WithCancel(ctx)
	defer end()
	notify := systemd.NewNotifier(os.Getenv)
	takeOver(h, log)
	watches := &watch.Set{Poll: true}
	changed, err := watches.FilesWithin(ctx, config.DefaultPaths(h.Root).Watched(), configDebounce, configMaxDelay, log)
	if err != nil {
		return err
	}
	node := h.Node(nil, woken(log))
	devices, err := watches.Devices(ctx, watch.Interest{
		About: func(u watch.Uevent) bool { return node.RelevantEvent(u.Subsystem, u.Path) },
		Files: node.ModeFiles,
	}, deviceDebounce, log)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	for _, file := range []string{runstate.StateFile, runstate.DiscoveredFile} {
		if err := atomicfile.Sweep(h.Path("run/dcm", file)); err != nil {
			log.Warn(err.Error())
		}
	}
	forget(ctx, h, log)
	requests := make(chan daemon.Request)
	metrics := &exporter{host: h, log: log}
	spare := newSpare(notify.WatchdogInterval() > 0)
	shown := newStatusPublisher(h, requests, metrics, spare, notify.Status, watches, log)
	quit := make(chan struct{})
	go func() {
		defer close(quit)
		shown.run(ctx)
	}()
	defer leave(end, changed, devices, quit)
	if notify.WatchdogInterval() > 0 {
		metrics.alive = time.Now()
	}
	agents := &agentSocket{host: h, log: log}
	reserved := func() []config.Reservation { return shown.config.Load().Reservations }
	d := &daemon.Daemon{
		Load: func() (daemon.Settings, error) {
			s, err := shown.load()
			if why := watches.Polling(); why != nil {
				s.Warnings = append(slices.Clip(s.Warnings), polling(why))
			}
			metrics.configure(shown.config.Load().Metrics)
			agents.set(ctx, shown.config.Load().Agent)
			if err == nil && !s.Include {
				err = runstate.WriteDiscovered(h.Runtime(), nil)
			}
			if err == nil && s.Reboot {
				if err := keeping(h).Testify(); err != nil {
					log.Warn(err.Error()) // a reboot may be refused for it
				}
			}
			return s, err
		},
		LastGood:  shown.lastGood,
		Stale:     func(s daemon.Settings) ([]string, error) { return stale(h, s) },
		Unwritten: func() ([]string, error) { return unwritten(h, &shown.files) },
		Reserve: func(ctx context.Context, s daemon.Settings) (bool, error) {
			return reservations.Stale(ctx, h, reserved(), s.Selected, log)
		},
		Unmet:   h.Unmet,
		Dial:    func(ctx context.Context) (daemon.Units, error) { return systemd.Dial(ctx) },
		Busy:    func() (bool, error) { return filelock.Held(h.Lock()) },
		LastRun: func() (*runstate.Run, error) { return runstate.ReadRun(h.Runtime()) },
		Save:    func(s runstate.State) error { return shown.save(ctx, s) },
		Fit:     h.Fit,
		Include: include(h),
		GPUs:    watched{h, node, &shown.looked, reserved, acl}, Host: rebooter{h, reboots(h), keeping(h).Lasting},
		Explain: apply.Explain,
		Rearm:   watches.Rearm,
		Notify:  watchdogHook{notify, metrics, spare}, Log: log, Started: startedBy(h, log),
		Changed: changed, Devices: devices, Hangup: hangup, Ticks: ticks(notify.WatchdogInterval()), Requests: requests,
	}
	err = d.Run(ctx, initial(h, log))
	// A start that fails ends with why it does; of one that is told to end nothing is left to say.
	last, enough := context.WithTimeout(ctx, glance)
	defer enough()
	shown.caughtUp(last)
	if err == nil {
		metrics.stop()
	}
	return exitStatus(err)
}

// polling is the warning that the daemon hears of changes late.
func polling(why error) string {
	return fmt.Sprintf("%v; the daemon looks for changes every %s until one is", why, watch.PollInterval)
}

// shutdownTimeout is how long the end may take at most.
const shutdownTimeout = time.Second

// leave ends what watches, and waits until nothing is watched any more: for a process that
// ends with watches a restart waits longer, see [watch.Set].
func leave(end context.CancelFunc, watched ...<-chan struct{}) {
	end()
	limit := time.After(shutdownTimeout)
	for _, w := range watched {
		for open := true; open; {
			select {
			case _, open = <-w:
			case <-limit:
				return
			}
		}
	}
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

func settings(h *host.Host, cfg *config.Config) daemon.Settings {
	order := h.Order(cfg)
	return daemon.Settings{
		Profile: cfg.Profile, Selected: cfg.Selected != "", Source: cfg.Source,
		Require: cfg.Require, Order: order, Warnings: cfg.Warnings,
		Timeout: cfg.DeviceTimeout, Reboot: cfg.Reboot == config.Once, LeaveDrift: cfg.Drift == config.Report,
		Suggest: cfg.Discover == config.Suggest, Include: cfg.Discover == config.Include,
		Rest: rest(cfg),
	}
}

// rest is what a run goes by and the daemon does not: an edit of it is a reason to try
// again what has failed.
func rest(cfg *config.Config) string {
	text := fmt.Sprintf("on-failure %s, reload-driver %t, at-load %t, backend %s %q", cfg.OnFailure, cfg.ReloadDriver, cfg.AtLoad, cfg.Backend, cfg.Library)
	for _, r := range cfg.Reservations {
		text += "; " + r.Name + " " + r.Asks()
	}
	return text
}

func stale(h *host.Host, s daemon.Settings) ([]string, error) {
	return systemd.Differing(h.Path("run/systemd/generator"), s.Order.Dropins())
}

// watched is the hardware as the daemon asks for it.
type watched struct {
	host     *host.Host
	node     *gpu.Node
	looked   *deviceCache
	reserved func() []config.Reservation
	acl      *deviceACL
}

func (w watched) DriverUnloaded() bool {
	if w.node.Loaded() {
		return false
	}
	last, err := runstate.ReadRun(w.host.Runtime())
	return err == nil && apply.HalfReloaded(last, w.host.BootID())
}

func (w watched) Observe(ctx context.Context, p partition.Profile) (daemon.Observation, error) {
	w.acl.refreshIfChanged(ctx)
	devices, err := w.node.Wait(ctx)
	look := daemon.Observation{Fingerprint: gpu.Fingerprint(devices)}
	if err != nil {
		return look, err
	}
	w.looked.put(devices)
	look.Published = func() bool { return reservations.ListIsOf(w.host, devices) }
	d, err := apply.Compare(devices, p)
	if err != nil || len(d.Steps) == 0 {
		return look, err
	}
	if err := d.Judge(w.host.Fits(w.reserved())); err != nil {
		return look, err
	}
	look.Diff = len(d.Steps)
	look.Blocking, err = d.Blockers(ctx, w.node)
	return look, err
}

func (w watched) Fingerprint(ctx context.Context) string {
	w.acl.refreshIfChanged(ctx)
	devices, err := w.node.Devices(ctx)
	if err != nil && len(devices) == 0 {
		return err.Error()
	}
	return gpu.Fingerprint(devices)
}

func (w watched) Glance() string { return w.node.PollFingerprint() }

func (w watched) AwaitExit(ctx context.Context, holders []runstate.Holder) error {
	pids := make([]int, len(holders))
	for i, h := range holders {
		pids[i] = h.PID
	}
	return gpu.WaitAnyExit(ctx, pids)
}
