package service

import (
	"context"
	"log/slog"
	"os"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/dropins"
	"dcm/internal/linux/systemd"
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
	go startTasks(ctx, s.tasks(), log)
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

// server is dcm.service: the loop of package daemon, and the tasks next to it.
type server struct {
	host   *host.Host
	log    *slog.Logger
	notify *systemd.Notifier
	acl    *deviceACL
	node   *gpu.Node
	events *events
	config *effectiveConfig

	status  *statusPublisher
	metrics *exporter
	bus     *dbusapi.Service
	leases  *leaseservice.Service
	guard   *guardian
	memory  *memoryWatch
	clients *clientWatch
	dropins *dropins.Keeper
	agents  *agentSocket

	requests chan daemon.Request
}

// newServer makes the parts of the daemon and connects them. Of these, only the watches run.
func newServer(ctx context.Context, h *host.Host, log *slog.Logger) (*server, error) {
	s := &server{host: h, log: log, requests: make(chan daemon.Request)}
	s.acl = newDeviceACL(h, log) // first: the daemon sees what comes after it as new
	s.notify = systemd.NewNotifier(os.Getenv)
	s.node = host.OpenNode(h, nil, woken(log))
	var err error
	if s.events, err = newEvents(ctx, h, s.node, log); err != nil {
		return nil, err
	}
	for _, file := range []string{runstate.StateFile, runstate.DiscoveredFile} {
		if err := atomicfile.Sweep(h.Path("run/dcm", file)); err != nil {
			log.Warn(err.Error())
		}
	}
	discardInvalid(h, log)
	forgetDiscovered(ctx, h, log)
	s.config = newEffectiveConfig(h, log)
	s.metrics, s.agents = newExporter(h, s.notify.WatchdogInterval() > 0, log), &agentSocket{host: h, log: log}
	s.status = newStatusPublisher(h, s.config, s.metrics, s.notify.Status, log)
	guard := hostGuard{h, s.config.observers}
	s.guard = newGuardian(guard, guard, log, s.status.refresh)
	s.leases = leaseservice.New(h, s.config.get, s.guard.nudge, s.status.refresh, log)
	s.config.changed = s.leases.ApplyLimits
	s.dropins = newKeeper(h, s.config, s.status.refresh, log)
	calls := control{h, host.OpenNode(h, nil), s.requests, s.status.caughtUp, s.config}
	s.bus = dbusapi.New(dbusapi.SystemBus, dbusapi.Control{
		Profiles:  calls,
		Planner:   calls,
		Documents: documents{h, s.status, s.leases},
		Leases:    s.leases,
		Queue:     s.leases,
	}, log)
	s.status.queue, s.status.lost, s.status.atRest, s.status.publish = s.leases.Queue, s.dropins.Lost, s.guard.nudge, s.bus.Publish
	s.memory = newMemoryWatch(h, host.OpenNode(h, nil), func() []partition.GPU { return managed(s.status.seen.Load()) }, s.status.refresh, log)
	s.clients = newClientWatch(h, s.config.get, s.status.refresh, log)
	s.status.found, s.leases.Used = s.memory.nudge, s.memory.nudge
	s.status.held, s.metrics.leased = s.leases.Held, s.leases.PartitionSeconds
	return s, nil
}

// tasks lists the tasks next to the loop, in the order in which they start. Those that need PID 1
// or the bus do not run for another root directory.
func (s *server) tasks() []task {
	all := []task{{"status publisher", s.status.run, s.status.ready}}
	if !s.host.Here() {
		return all
	}
	return append(all,
		task{"D-Bus service", func(ctx context.Context) { s.bus.Run(ctx, s.events.busMade) }, nil},
		task{"drop-in keeper", s.dropins.Run, nil},
		task{"leases of an earlier daemon", s.leases.Resume, nil},
		task{"guard", s.guard.run, nil},
		task{"held memory", s.memory.run, nil},
		task{"clients without their GPU", s.clients.run, nil},
		task{"instances of leases", s.leases.SweepMade, nil},
		task{"cleaning of partitions", s.leases.RetryCleaning, nil},
		task{"notices of leases", s.leases.Notify, nil},
		task{"counters of services", s.leases.CountServices, nil},
	)
}

// stop ends the tasks, and waits until nothing is watched and the status publisher has returned.
func (s *server) stop(end context.CancelFunc) {
	leave(end, s.events.changed, s.events.devices, s.events.busMade, s.status.ended)
}
