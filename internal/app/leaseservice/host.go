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

	"dcm/internal/app/host"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
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
}

// answering is what PID 1 and the kernel may take. A run that begins waits for it.
const HostTimeout = 30 * time.Second

// Facts: what there is, from the last run; who has it, from PID 1 and the open files.
func (p *Host) Facts(ctx context.Context) (lease.Snapshot, error) {
	f, _, err := p.facts(ctx)
	return f, err
}

// facts are told beside the look at the open files.
func (p *Host) facts(ctx context.Context) (lease.Snapshot, gpu.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	seen := p.startScan(ctx)
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return lease.Snapshot{}, gpu.Usage{}, err
	}
	defer conn.Close()
	return p.factsBy(ctx, conn, seen)
}

// sight is what the open files show. It is looked at while PID 1 is asked: somebody waits
// for a lease.
type openFilesScan struct {
	over  sync.WaitGroup
	usage gpu.Usage
	err   error
}

func (p *Host) startScan(ctx context.Context) *openFilesScan {
	var s openFilesScan
	s.over.Go(func() { s.usage, s.err = p.node.Usage(ctx) })
	return &s
}

// factsBy asks PID 1 by a connection that there is.
func (p *Host) factsBy(ctx context.Context, conn *systemd.Conn, seen *openFilesScan) (lease.Snapshot, gpu.Usage, error) {
	last, err := runstate.ReadPartitions(p.host.Runtime())
	// At boot /run is empty. The boot's id is not compared: in a container systemd 252
	// shows some processes another one.
	if err == nil && last == nil {
		err = errors.New("the partitions are not listed yet; dcm-apply.service does it at the end of each run")
	}
	if err != nil {
		return lease.Snapshot{}, gpu.Usage{}, err
	}
	f := lease.Snapshot{Reserved: make(map[string]string), Open: make(map[string][]string)}
	// One whose node is not there could be given, and nothing would be in the lease.
	there := slices.DeleteFunc(last.Parts, func(part runstate.Part) bool {
		_, err := os.Stat(p.host.Path(part.Render))
		return err != nil
	})
	f.Parts = there
	for _, r := range last.Reservations {
		for _, name := range r.Partitions {
			f.Reserved[name] = r.Name
		}
	}
	f.Tenants, err = p.unitDevices(ctx, conn)
	seen.over.Wait()
	if err = errors.Join(err, seen.err); err != nil {
		return f, seen.usage, err
	}
	for _, part := range there {
		f.Open[part.Name] = unexpectedUsers(part, seen.usage.Holders, p.config().Observers)
	}
	return f, seen.usage, nil
}

// Held says of every partition of the host who has it.
func Allocations(ctx context.Context, h *host.Host) ([]lease.Allocation, error) {
	cfg, err := h.InForce()
	if cfg == nil {
		return nil, err
	}
	f, err := NewHost(h, cfg, slog.New(slog.DiscardHandler)).Facts(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Allocations(f), nil
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
func openFiles(h *host.Host) *gpu.Node { return h.Node(nil, gpu.Leases(nil)) }

// users are who has a partition open, but for those whose work it is to look at all.
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
	_, ok := lease.ParseName(unit)
	return ok
}

// tenantsNow are the units of the slice, with the links that they name followed.
func (p *Host) readUnitDevices(ctx context.Context) ([]lease.UnitDevices, error) {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return p.unitDevices(ctx, conn)
}

func (p *Host) unitDevices(ctx context.Context, conn *systemd.Conn) ([]lease.UnitDevices, error) {
	var loaded uint64 // 0 if it cannot be read: then no list is known
	known := sync.OnceValue(func() (err error) { loaded, err = conn.LoadedAt(ctx); return err })
	list, err := conn.UnitsInSlice(ctx, unitname.Slice, func(unit string) ([]string, bool) {
		if known() != nil {
			return nil, false
		}
		return p.lists.of(p.host, unit, loaded)
	})
	if err != nil {
		return nil, err
	}
	p.lists.keep(list, loaded)
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
	units, err := conn.List(ctx, []string{unit}, systemd.States)
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
	return conn.Stop(ctx, unit)
}

func (p *Host) Check(c lease.Caller) error { return c.Process.Check() }

// Still: leases have a lock of their own, so that a run that begins meanwhile waits
// for a moment, and does not fail because somebody was given a partition.
func (p *Host) Still() (func(), error) {
	release, err := filelock.TryLock(p.host.Leases())
	if errors.Is(err, filelock.ErrLocked) {
		return nil, lease.ErrChanging
	}
	if err != nil {
		return nil, err
	}
	busy, err := filelock.Held(p.host.Lock())
	if err == nil && busy {
		err = lease.ErrChanging
	} else if who := p.host.Draining(); err == nil && who != "" {
		err = fmt.Errorf("%w: %s", lease.ErrDraining, who)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// unheard is how long somebody waits for what nobody tells of: the end of a process
// that is in no unit of its own.
const changePollInterval = 15 * time.Second

// Changed hears of units that end, and looks anew from time to time.
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
			if heard, stop, err := conn.WatchRemoved(limit); err == nil {
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
