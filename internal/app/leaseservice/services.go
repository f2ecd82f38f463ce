package leaseservice

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/unitname"
	"dcm/internal/linux/watch"
)

// runningService is a reserved service that runs.
type runningService struct {
	status.Lease        // its unit and partitions
	cgroup       uint64 // number of the directory: a restart makes another one
}

// services logs the counters of the partitions of reserved services at their starts and ends. systemd starts
// and stops them without the daemon, so it watches their cgroups. After a restart of the daemon the start is
// logged again, and dcm usage ignores that.
type services struct {
	list   func() (running map[string]runningService, dirs []string) // the services, and the directories that have their cgroups
	watch  func(ctx context.Context, dirs []string) (<-chan struct{}, error)
	record recorder
	over   func(context.Context, string) // called when a service has ended
	log    *slog.Logger
}

func newServices(h *host.Host, record recorder, over func(context.Context, string), log *slog.Logger) services {
	return services{
		list: func() (map[string]runningService, []string) { return runningServices(h) },
		watch: func(ctx context.Context, dirs []string) (<-chan struct{}, error) {
			return watch.Files(ctx, dirs, endQuietInterval, log)
		},
		record: record, over: over, log: log,
	}
}

// followed is a service whose end is awaited.
type followed struct {
	life
	cgroup uint64
}

// run follows the services until ctx ends.
func (s services) run(ctx context.Context) {
	live, warned := make(map[string]followed), false
	_, dirs := s.list()
	for ctx.Err() == nil {
		until, cancel := context.WithCancel(ctx)
		changed, err := s.watch(until, dirs)
		if err != nil && !warned {
			warned = true
			s.log.Warn(fmt.Sprintf("the starts and ends of services are noticed late: %v", err))
		}
		for ctx.Err() == nil {
			running, now := s.list()
			s.compare(ctx, live, running)
			if !slices.Equal(now, dirs) {
				dirs = now // watch the others too, then list again
				break
			}
			awaitChange(ctx, changed, err != nil)
		}
		cancel()
	}
}

// awaitChange returns after a change or, with poll, after an interval.
func awaitChange(ctx context.Context, changed <-chan struct{}, poll bool) {
	var due <-chan time.Time
	if poll {
		due = time.After(changePollInterval)
	}
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
	}
}

// compare ends the services that do not run any more, and begins those that have started.
func (s services) compare(ctx context.Context, live map[string]followed, running map[string]runningService) {
	for _, unit := range slices.Sorted(maps.Keys(live)) {
		if now, ok := running[unit]; !ok || now.cgroup != live[unit].cgroup {
			live[unit].end(ctx, s.record)
			s.over(ctx, unit)
			delete(live, unit)
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(running)) {
		if _, known := live[unit]; !known {
			live[unit] = followed{newLife(ctx, running[unit].Lease, s.record), running[unit].cgroup}
		}
	}
}

// runningServices returns the reserved services that have a cgroup, and the directories of dcm's slices. It
// reads the reservations only if a service runs in the slices.
func runningServices(h *host.Host) (running map[string]runningService, dirs []string) {
	var paths []string
	paths, dirs = serviceCgroups(h)
	if len(paths) == 0 {
		return nil, dirs
	}
	running = make(map[string]runningService)
	reserved, _ := runstate.ReadReservations(h.Runtime()) // without the list no service has partitions
	claims, _ := host.Claims(h).List()
	for _, path := range paths {
		l := status.Lease{Lease: filepath.Base(path)}
		if reserved != nil {
			l.Partitions, l.Share = reserved.Of(l.Lease)
		}
		for _, n := range claims {
			if n.Lease == l.Lease {
				l.Partitions = append(l.Partitions, runstate.PartName(n.GPU, n.Start))
			}
		}
		if info, err := os.Stat(path); err == nil && len(l.Partitions) > 0 {
			running[l.Lease] = runningService{l, info.Sys().(*syscall.Stat_t).Ino}
		}
	}
	return running, dirs
}

// serviceCgroups returns the cgroups of the services in dcm's slices, and the directories of these slices.
func serviceCgroups(h *host.Host) (services, dirs []string) {
	dirs = []string{h.Path("sys/fs/cgroup", unitname.Slice)}
	for i := 0; i < len(dirs); i++ {
		entries, _ := os.ReadDir(dirs[i]) // the directory is missing until something runs in the slice
		for _, e := range entries {
			path := filepath.Join(dirs[i], e.Name())
			switch {
			case !e.IsDir():
			case strings.HasSuffix(e.Name(), ".slice"):
				dirs = append(dirs, path)
			case strings.HasSuffix(e.Name(), ".service"):
				services = append(services, path)
			}
		}
	}
	return services, dirs
}
