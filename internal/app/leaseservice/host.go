package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/drain"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// leaseHost is the machine as leases see it. It is a [lease.Host].
type Host struct {
	host   *host.Host
	node   *gpu.Node // by sysfs alone
	config func() *config.Config
	log    *slog.Logger

	guardChanged func()      // called when an exclusive lease has ended
	ended        serviceRuns // whose leftovers were ended
	lists        deviceLists
	origins      originCache
}

// answering is what PID 1 and the kernel may take. A run that begins waits for it.
const HostTimeout = 30 * time.Second

// Snapshot reads the partitions from the last run's list, and their holders from PID 1 and the open
// files.
func (p *Host) Snapshot(ctx context.Context) (lease.Snapshot, error) {
	snapshot, _, err := p.snapshot(ctx)
	return snapshot, err
}

// facts are told beside the look at the open files.
func (p *Host) snapshot(ctx context.Context) (lease.Snapshot, gpu.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	last, err := p.partitions()
	if err != nil {
		return lease.Snapshot{}, gpu.Usage{}, err
	}
	seen := p.startScan(ctx, last)
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return lease.Snapshot{}, gpu.Usage{}, err
	}
	defer conn.Close()
	return p.snapshotBy(ctx, conn, last, loadedOnce(ctx, conn), seen)
}

// partitions reads the list of the last run.
func (p *Host) partitions() (*runstate.Partitions, error) {
	last, err := runstate.ReadPartitions(p.host.Runtime())
	// At boot /run is empty. The boot's id is not compared: in a container systemd 252
	// shows some processes another one.
	if err == nil && last == nil {
		err = errors.New("the partitions are not listed yet; dcm-apply.service does it at the end of each run")
	}
	return last, err
}

// loadedOnce returns a function that reads once when PID 1 last loaded its units.
func loadedOnce(ctx context.Context, conn *systemd.Conn) func() (uint64, error) {
	return sync.OnceValues(func() (uint64, error) { return conn.Manager.LoadedAt(ctx) })
}

// openFilesScan is a scan of open files that runs while PID 1 is queried, since a caller waits for
// the lease.
type openFilesScan struct {
	over  sync.WaitGroup
	usage gpu.Usage
	err   error
}

// startScan scans for holders of the listed partitions. It does not search the bus for GPUs.
func (p *Host) startScan(ctx context.Context, last *runstate.Partitions) *openFilesScan {
	kinds := lease.KindsOf(last.Parts)
	listed := func(v partition.Vendor) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return kind == "" || strings.HasPrefix(kind, partition.KindOf(v, "")) })
	}
	var s openFilesScan
	s.over.Go(func() { s.usage, s.err = p.node.UsageOf(ctx, listed) })
	return &s
}

// snapshotBy reads PID 1 by an open connection.
func (p *Host) snapshotBy(ctx context.Context, conn *systemd.Conn, last *runstate.Partitions, loaded func() (uint64, error), seen *openFilesScan) (_ lease.Snapshot, _ gpu.Usage, err error) {
	snapshot := lease.Snapshot{Reserved: make(map[string]string), Open: make(map[string][]string)}
	// One whose node is not there could be given, and nothing would be in the lease.
	there := slices.DeleteFunc(last.Parts, func(part runstate.Part) bool {
		_, err := os.Stat(p.host.Path(part.Render))
		return err != nil
	})
	snapshot.Parts = there
	for _, r := range last.Reservations {
		for _, name := range r.Partitions {
			snapshot.Reserved[name] = r.Name
		}
	}
	snapshot.Units, err = p.unitDevices(ctx, conn, loaded)
	seen.over.Wait()
	if err = errors.Join(err, seen.err); err != nil {
		return snapshot, seen.usage, err
	}
	for _, part := range there {
		snapshot.Open[part.Name] = unexpectedUsers(part, seen.usage.Holders, p.config().Observers)
	}
	return snapshot, seen.usage, nil
}

// Allocations returns each partition of the host with its holders.
func Allocations(ctx context.Context, h *host.Host) ([]lease.Allocation, error) {
	cfg, err := h.Effective()
	if cfg == nil {
		return nil, err
	}
	snapshot, err := NewHost(h, cfg, slog.New(slog.DiscardHandler)).Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Allocations(snapshot), nil
}

func newHost(h *host.Host, effective func() *config.Config, log *slog.Logger) *Host {
	return &Host{host: h, node: openFiles(h), config: effective, log: log}
}

// ground returns the host's leases for one look.
func NewHost(h *host.Host, cfg *config.Config, log *slog.Logger) *Host {
	return newHost(h, func() *config.Config { return cfg }, log)
}

// openFiles is the hardware for a look at open files. It does not list the leases, which
// PID 1 names.
func openFiles(h *host.Host) *gpu.Node { return host.OpenNode(h, nil, gpu.Leases(func() []gpu.Holder { return nil })) }

// unexpectedUsers returns the units and processes that have a partition open, without the
// configured observers.
func unexpectedUsers(part runstate.Part, holders []gpu.Holder, observers []string) []string {
	var out []string
	for _, h := range holders {
		open := slices.Contains(h.Devices, part.Render) || part.Card != "" && slices.Contains(h.Devices, part.Card)
		if !open || slices.Contains(observers, h.Unit) {
			continue
		}
		who := h.Unit
		if who == "" || strings.HasSuffix(who, ".scope") && !leased(who) || strings.HasPrefix(who, "user@") {
			who = fmt.Sprintf("%s[%d]", h.Command, h.PID) // a user's own: the session says nothing
		}
		if !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	return out
}

func leased(unit string) bool {
	_, ok := unitname.ParseLease(unit)
	return ok
}

// tenantsNow are the units of the slice, with the links that they name followed.
func (p *Host) readUnitDevices(ctx context.Context) ([]lease.UnitDevices, error) {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return p.unitDevices(ctx, conn, loadedOnce(ctx, conn))
}

func (p *Host) unitDevices(ctx context.Context, conn *systemd.Conn, loaded func() (uint64, error)) ([]lease.UnitDevices, error) {
	edited := editedUnits(p.host)
	list, err := conn.Cgroups.UnitsInSlice(ctx, unitname.Slice, func(unit string) ([]string, bool) {
		at, err := loaded()
		if err != nil || edited(unit) {
			return nil, false
		}
		return p.lists.of(unit, at)
	})
	if err != nil {
		return nil, err
	}
	var at uint64
	if len(list) > 0 {
		at, _ = loaded() // 0: the lists are read again next time
	}
	p.lists.keep(list, at)

	out := make([]lease.UnitDevices, len(list))
	for i, t := range list {
		out[i] = lease.UnitDevices{Unit: t.Unit, Active: true}
		for _, path := range t.Allow {
			if to, err := os.Readlink(p.host.Path(path)); err == nil {
				path = sanitize.Text(to)
			}
			out[i].Allowed = append(out[i].Allowed, path)
		}
	}
	return out, nil
}

func (p *Host) Active(ctx context.Context, unit string) (bool, error) {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	units, err := conn.Units.List(ctx, []string{unit}, systemd.States)
	if err != nil || len(units) != 1 {
		return false, err
	}
	return units[0].Active != "inactive" && units[0].Active != "failed", nil
}

func (p *Host) Stop(ctx context.Context, unit string) error {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.Stop(ctx, unit)
}

func (p *Host) Check(c lease.Caller) error { return c.Process.Check() }

// Lock takes the lock of leases, which is not that of runs: a run that begins meanwhile
// waits for a moment, and does not fail because a lease is being allocated.
func (p *Host) Lock() (func(), error) {
	release, err := filelock.TryLock(p.host.LeasesLock())
	if errors.Is(err, filelock.ErrLocked) {
		return nil, lease.ErrChanging
	}
	if err != nil {
		return nil, err
	}
	busy, err := filelock.Held(p.host.RunLock())
	if err == nil && busy {
		err = lease.ErrChanging
	} else if who := drain.Holder(p.host); err == nil && who != "" {
		err = fmt.Errorf("%w: %s", lease.ErrDraining, who)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// changePollInterval is the interval for changes without an event: the end of a process that is in
// no unit of its own.
const changePollInterval = 15 * time.Second

// Changed is closed when a unit has ended, at the latest after changePollInterval.
func (p *Host) Changed(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(changed)
		limit, cancel := context.WithTimeout(ctx, changePollInterval)
		defer cancel()
		var ended <-chan struct{}
		if conn, err := p.host.DialToWait(limit); err == nil {
			defer conn.Close()
			if heard, stop, err := conn.Manager.WatchRemoved(limit); err == nil {
				defer stop()
				ended = heard
			}
		}
		close(ready)
		select {
		case <-ended:
		case <-limit.Done():
		}
	}()
	<-ready // what comes from now on is heard
	return changed
}
