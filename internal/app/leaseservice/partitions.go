package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/drain"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// HostTimeout is how long PID 1 and the kernel may take to answer. A run waits that long for the
// lock of leases.
const HostTimeout = 30 * time.Second

// Partitions reads the partitions of this host and their holders. It implements [lease.Partitions].
type Partitions struct {
	host      *host.Host
	node      *gpu.Node // reads sysfs only, and not the leases, which PID 1 reports
	config    func() *config.Config
	log       *slog.Logger
	processes processes
	dynamic   dynamicGPUs

	ended   serviceRuns
	lists   deviceLists
	origins originCache
	hours   userHours
}

// NewPartitions returns the partitions for readers outside the daemon.
func NewPartitions(h *host.Host, cfg *config.Config, log *slog.Logger) *Partitions {
	return newPartitions(h, func() *config.Config { return cfg }, log)
}

func newPartitions(h *host.Host, effective func() *config.Config, log *slog.Logger) *Partitions {
	node := host.OpenNode(h, nil, gpu.Leases(func() []gpu.Holder { return nil }))
	return &Partitions{host: h, node: node, config: effective, processes: processes{h}, dynamic: dynamicGPUs{h, node, effective, &knownDynamic{}}, hours: userHours{node: node}, log: log}
}

// Allocations returns each partition of the host with its holders.
func Allocations(ctx context.Context, h *host.Host) ([]lease.Allocation, error) {
	cfg, err := h.Effective()
	if cfg == nil {
		return nil, err
	}
	snapshot, err := NewPartitions(h, cfg, slog.New(slog.DiscardHandler)).Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Allocations(snapshot.WithHours()), nil
}

// Snapshot reads the partitions from the last run's list, and their holders from PID 1 and the open
// files.
func (p *Partitions) Snapshot(ctx context.Context) (lease.Snapshot, error) {
	snapshot, _, err := p.snapshot(ctx)
	return snapshot, err
}

// snapshot is Snapshot, with the result of the scan of open files.
func (p *Partitions) snapshot(ctx context.Context) (lease.Snapshot, gpu.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	r, err := p.read(ctx)
	if err != nil {
		return lease.Snapshot{}, gpu.Usage{}, err
	}
	defer r.conn.Close()
	return p.collect(ctx, r)
}

// reading is a snapshot that is being read: the files are scanned while PID 1 is queried, since a
// caller waits for the lease.
type reading struct {
	claims []made.Name
	last   *runstate.Partitions
	conn   *systemd.Conn
	loaded func() (uint64, error) // returns when PID 1 last loaded its units

	scan  sync.WaitGroup
	usage gpu.Usage
	err   error // of the scan
}

// read starts to read. It reads the claims before the list: dcm-make@.service removes an instance from the
// list before it removes the claim, so that no such partition appears to be free.
func (p *Partitions) read(ctx context.Context) (*reading, error) {
	claims, err := host.Claims(p.host).List()
	if err != nil {
		return nil, err
	}
	last, err := p.listed()
	if err != nil {
		return nil, err
	}
	r := &reading{claims: claims, last: last}
	vendors := vendorsOf(last.Parts)
	r.scan.Go(func() { r.usage, r.err = p.node.UsageOf(ctx, vendors) })
	if r.conn, err = p.host.Dial(ctx); err != nil {
		return nil, err
	}
	r.loaded = sync.OnceValues(func() (uint64, error) { return r.conn.Manager.LoadedAt(ctx) })
	return r, nil
}

// listed returns the list of the last run.
func (p *Partitions) listed() (*runstate.Partitions, error) {
	last, err := runstate.ReadPartitions(p.host.Runtime())
	// At boot /run is empty. The boot ID is not compared, since in a container systemd 252
	// shows some processes another one.
	if err == nil && last == nil {
		err = errors.New("the partitions are not listed: no run of dcm-apply.service has ended since boot\nhint: see 'dcm gpus', and apply a profile with 'dcm apply PROFILE'")
	}
	return last, err
}

// vendorsOf returns a function that reports whether a vendor has one of the partitions.
func vendorsOf(parts []runstate.Part) func(partition.Vendor) bool {
	kinds := lease.KindsOf(parts)
	return func(v partition.Vendor) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, partition.KindOf(v, "")) })
	}
}

// collect queries PID 1 and waits for the scan.
func (p *Partitions) collect(ctx context.Context, r *reading) (lease.Snapshot, gpu.Usage, error) {
	// A partition without its device node cannot be used.
	parts := slices.DeleteFunc(slices.Clone(r.last.Parts), func(part runstate.Part) bool {
		_, err := os.Stat(p.host.Path(part.Render))
		return err != nil
	})
	snapshot := lease.Snapshot{
		Parts: parts, Reserved: make(map[string]string), Open: make(map[string][]string), Awaited: awaited(parts, drain.Now(p.host)),
		Made: madeBy(r.claims), Switched: switchedBy(r.claims),
	}
	snapshot.Held = HeldMemory(p.host, p.config())
	snapshot.Late = snapshot.Held.Late(p.dynamic.late(ctx, slices.Sorted(maps.Keys(r.last.Modes))))
	snapshot.Dynamic = sync.OnceValues(func() ([]lease.DynamicGPU, error) {
		return p.dynamic.read(nil, &r.usage, slices.Sorted(maps.Keys(r.last.Modes)))
	}) // the scan has ended
	for _, r := range r.last.Reservations {
		for _, name := range r.Partitions {
			snapshot.Reserved[name] = r.Name
		}
	}
	var err error
	if snapshot.Hours, err = p.hours.read(ctx, p.config(), slices.Sorted(maps.Keys(r.last.Modes))); err != nil {
		return snapshot, r.usage, fmt.Errorf("cannot read the GPUs of the reservations for users: %w", err)
	}
	snapshot.Units, err = p.unitDevices(ctx, r.conn, r.loaded)
	r.scan.Wait()
	if err = errors.Join(err, r.err); err != nil {
		return snapshot, r.usage, err
	}
	if snapshot.Cleaning, err = p.cleaning(ctx, r.conn, snapshot); err != nil {
		return snapshot, r.usage, err
	}
	for _, part := range parts {
		snapshot.Open[part.Name] = unexpectedUsers(part, r.usage.Holders, p.config().Observers)
	}
	return snapshot, r.usage, nil
}

// awaited returns the process that waits for the leases of single GPUs, by the partitions of these
// GPUs. A wait for all leases prevents every lease, see [Partitions.Lock].
func awaited(parts []runstate.Part, w drain.Wait) map[string]string {
	out := make(map[string]string)
	for _, part := range parts {
		if !w.Everything() && w.Concerns(part.GPU) {
			out[part.Name] = w.Holder
		}
	}
	return out
}

// unexpectedUsers returns the units and processes that have a partition open, without the
// configured observers.
func unexpectedUsers(part runstate.Part, holders []gpu.Holder, observers []string) []string {
	var out []string
	for _, h := range holders {
		open := slices.Contains(h.Devices, part.Render) || part.Card != "" && slices.Contains(h.Devices, part.Card)
		if !open || slices.Contains(observers, h.Unit) {
			continue
		}
		user := userName(h)
		if !slices.Contains(out, user) {
			out = append(out, user)
		}
	}
	return out
}

// userName returns the unit of a process, or its name and PID if the unit would not identify it.
func userName(h gpu.Holder) string {
	if h.Unit == "" || strings.HasSuffix(h.Unit, ".scope") && !isLease(h.Unit) || strings.HasPrefix(h.Unit, "user@") {
		return fmt.Sprintf("%s[%d]", h.Command, h.PID) // a session's unit would not identify it
	}
	return h.Unit
}

// unitDevices returns the units in dcm.slice with their devices, links resolved. PID 1 is asked
// only for the names of known leases: a scope that has ended is unloaded immediately.
func (p *Partitions) unitDevices(ctx context.Context, conn *systemd.Conn, loaded func() (uint64, error)) ([]lease.UnitDevices, error) {
	names, err := conn.Cgroups.NamesInSlice(ctx, unitname.Slice)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	at, err := loaded()
	if err != nil {
		return nil, err
	}
	list, unknown := p.lists.split(names, at, editedUnits(p.host))
	read, err := conn.Cgroups.Tenants(ctx, unknown, true)
	if err != nil {
		return nil, err
	}
	for _, t := range read {
		list = append(list, lease.UnitDevices{Unit: t.Unit, Active: true, Allowed: p.resolve(t.Allow)})
	}
	sorting.By(list, func(a, b lease.UnitDevices) int { return strings.Compare(a.Unit, b.Unit) })
	p.lists.keep(list, at)
	return list, nil
}

// resolve returns the nodes that paths lead to.
func (p *Partitions) resolve(paths []string) []string {
	nodes := make([]string, len(paths))
	for i, path := range paths {
		nodes[i] = path
		if to, err := os.Readlink(p.host.Path(path)); err == nil {
			nodes[i] = sanitize.Text(to)
		}
	}
	return nodes
}

// Lock takes the lock of leases, not that of runs: a run that begins while a lease is being
// allocated waits for a moment and does not fail.
func (p *Partitions) Lock() (func(), error) {
	release, err := filelock.TryLock(p.host.Locks().Leases())
	if errors.Is(err, filelock.ErrLocked) {
		return nil, lease.ErrChanging
	}
	if err != nil {
		return nil, err
	}
	busy, err := filelock.Held(p.host.Locks().Run())
	if err == nil && busy {
		err = lease.ErrChanging
	} else if w := drain.Now(p.host); err == nil && w.Everything() {
		err = fmt.Errorf("%w: %s", lease.ErrDraining, w.Holder)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// Changed returns a channel that is closed when a unit has ended, at the latest after
// changePollInterval.
func (p *Partitions) Changed(ctx context.Context) <-chan struct{} { return changed(ctx, p.host) }
