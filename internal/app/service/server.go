package service

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"dcm/internal/app/leaseservice"
	"dcm/internal/app/reservations"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/dropins"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/watch"
)

// configDebounce is how long the configuration must have been left alone before it is
// read: editors and configuration management write in several steps.
const configDebounce = 200 * time.Millisecond

// configMaxDelay limits how long edits that do not pause may delay that. Each run restarts the
// clients, and an incomplete edit is not intended to be applied.
const configMaxDelay = 15 * time.Second

// deviceDebounce is the same for devices: a driver sends many events for each GPU.
const deviceDebounce = 100 * time.Millisecond

// server is dcm.service: the loop of package daemon, and the tasks next to it.
type server struct {
	host    *host.Host
	log     *slog.Logger
	notify  *systemd.Notifier
	acl     *deviceACL
	node    *gpu.Node
	watches *watch.Set
	config  *effectiveConfig

	status  *statusPublisher
	metrics *exporter
	memory  *memoryReleaser
	bus     *dbusapi.Service
	leases  *leaseservice.Service
	guard   *guardian
	dropins *dropins.Keeper
	agents  *agentSocket

	changed  <-chan struct{} // the configuration
	devices  <-chan struct{}
	busMade  <-chan struct{} // the socket of the bus, or its policy
	hangup   chan os.Signal
	requests chan daemon.Request
	ended    chan struct{} // the status publisher has
}

func newServer(ctx context.Context, h *host.Host, log *slog.Logger) (*server, error) {
	s := &server{host: h, log: log, ended: make(chan struct{}), requests: make(chan daemon.Request), hangup: make(chan os.Signal, 1)}
	s.acl = newDeviceACL(h, log) // first: the daemon sees what comes after it as new
	s.notify = systemd.NewNotifier(os.Getenv)
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	for _, file := range []string{runstate.StateFile, runstate.DiscoveredFile} {
		if err := atomicfile.Sweep(h.Path("run/dcm", file)); err != nil {
			log.Warn(err.Error())
		}
	}
	forgetDiscovered(ctx, h, log)
	watchdog := s.notify.WatchdogInterval() > 0
	s.config = newEffectiveConfig(h, log)
	s.metrics, s.memory, s.agents = newExporter(h, watchdog, log), newMemoryReleaser(watchdog), &agentSocket{host: h, log: log}
	s.status = newStatusPublisher(h, s.config, s.metrics, s.memory, s.notify.Status, log)
	s.guard = newGuardian(hostGuard{h, s.config.observers}, log, s.status.refresh)
	s.leases = leaseservice.New(h, s.config.get, s.guard.nudge, log)
	s.config.changed = s.leases.ApplyLimits
	s.dropins = newKeeper(h, s.config, s.status.refresh, log)
	s.bus = dbusapi.New(dbusapi.SystemBus, control{host: h, node: host.OpenNode(h, nil), requests: s.requests, config: s.config, status: s.status, Service: s.leases}, log)
	s.status.queue, s.status.lost, s.status.atRest, s.status.publish = s.leases.Queue, s.dropins.Lost, s.guard.nudge, s.bus.Publish
	return s, nil
}

// watch makes the channels of events.
func (s *server) watch(ctx context.Context) (err error) {
	s.watches = &watch.Set{Poll: true}
	s.changed, err = s.watches.FilesWithin(ctx, config.DefaultPaths(s.host.Root).Watched(), configDebounce, configMaxDelay, s.log)
	if err != nil {
		return err
	}
	s.node = host.OpenNode(s.host, nil, woken(s.log))
	s.devices, err = s.watches.Devices(ctx, watch.Interest{
		About: func(u watch.Uevent) bool { return s.node.RelevantEvent(u.Subsystem, u.Path) },
		Files: s.node.ModeFiles,
	}, deviceDebounce, s.log)
	if err != nil {
		return err
	}
	// A restart of the bus makes its socket again. A new policy takes effect with its file.
	dirs := []string{"/run/dbus", "/usr/share/dbus-1/system.d", "/etc/dbus-1/system.d"}
	if s.busMade, err = s.watches.Files(ctx, dirs, configDebounce, s.log); err != nil {
		s.log.Warn("a bus that is started later will not be noticed", "error", err)
		s.busMade = nil
	}
	signal.Notify(s.hangup, syscall.SIGHUP)
	return nil
}

// task is a part of the daemon that runs concurrently with its loop.
type task struct {
	name  string
	run   func(context.Context)
	ready <-chan struct{} // nil: it is ready immediately
}

// Run returns when ctx ends, or when the task has nothing left to do.
func (t task) Run(ctx context.Context) { t.run(ctx) }

// Ready is closed when the tasks after this one may start.
func (t task) Ready() <-chan struct{} { return t.ready }

func (t task) String() string { return t.name }

// tasks lists the tasks in the order in which they start. Those that need PID 1 or the bus do not
// run for another root directory.
func (s *server) tasks() []task {
	all := []task{{"status publisher", s.runStatus, s.status.ready}}
	if !s.host.Here() {
		return all
	}
	return append(all,
		task{"D-Bus service", func(ctx context.Context) { s.bus.Run(ctx, s.busMade) }, nil},
		task{"drop-in keeper", s.dropins.Run, nil},
		task{"leases of an earlier daemon", s.leases.Resume, nil},
		task{"guard", s.guard.run, nil},
	)
}

func (s *server) runStatus(ctx context.Context) {
	defer close(s.ended)
	s.status.run(ctx)
}

// startTasks starts each task when the one before it is ready.
func (s *server) startTasks(ctx context.Context) {
	go func() {
		for _, t := range s.tasks() {
			s.log.Debug("task started", "task", t)
			go t.Run(ctx)
			if t.Ready() == nil {
				continue
			}
			select {
			case <-t.Ready():
			case <-ctx.Done():
				return
			}
		}
	}()
}

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
		Unmet: func() bool { return reservation.Unmet(h) },
		Dial: func(ctx context.Context) (*daemon.Units, error) {
			conn, err := systemd.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return daemon.UnitsOf(conn), nil
		},
		Busy:    func() (bool, error) { return filelock.Held(h.RunLock()) },
		LastRun: func() (*runstate.Run, error) { return runstate.ReadRun(h.Runtime()) },
		Save:    func(state runstate.State) error { return s.status.save(ctx, state) },
		Fit:     func(units []string) []string { return host.DiscoverableUnits(h, units) },
		Include: include(h),
		GPUs:    watched{h, s.node, &s.status.looked, s.config.reservations, s.acl}, Explain: apply.Explain,
		Host:   rebooter{h, reboots(h), keeping(h).Lasting},
		Rearm:  s.watches.Rearm,
		Notify: watchdogHook{s.notify, s.metrics, s.memory}, Log: log, Started: startedBy(h, log),
		Changed: s.changed, Devices: s.devices, Hangup: s.hangup, Ticks: ticks(s.notify.WatchdogInterval()), Requests: s.requests,
	}
}

// load reads the configuration, and applies the parts of it that are not the loop's.
func (s *server) load(ctx context.Context) (daemon.Settings, error) {
	settings, err := s.config.load()
	if why := s.watches.Polling(); why != nil {
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

// stop ends the tasks.
func (s *server) stop(end context.CancelFunc) { leave(end, s.changed, s.devices, s.busMade, s.ended) }

// shutdownTimeout limits how long the end takes.
const shutdownTimeout = time.Second

// leave ends the tasks, and waits until nothing is watched any more: a restart of a process that
// ends with watches takes longer, see [watch.Set].
func leave(end context.CancelFunc, watched ...<-chan struct{}) {
	end()
	limit := time.After(shutdownTimeout)
	for _, w := range watched {
		for open := w != nil; open; {
			select {
			case _, open = <-w:
			case <-limit:
				return
			}
		}
	}
}
