package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
)

// move moves one process into a scope.
type move struct {
	host      *host.Host
	processes processes
	log       *slog.Logger
	conn      *systemd.Conn
	pid1      moveUnits // the parts of conn that Undo calls
	ended     *serviceRuns
	caller    lease.Caller

	devices    []string // patterns of other device nodes that leases may open
	from       string   // the cgroup of the process before the move
	usePIDFD   bool     // PID 1 accepts the pidfd of the process
	properties []systemd.Property
	notes      []string // the limits that no longer apply
	err        error    // why these are not known
}

// Prepare reads what is needed to move the caller while it reads the snapshot, by the same connection.
func (p *Partitions) Prepare(ctx context.Context, c lease.Caller) (lease.Snapshot, lease.Move, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	r, err := p.read(ctx)
	if err != nil {
		return lease.Snapshot{}, nil, err
	}
	pid1 := moveUnits{r.conn.Jobs, r.conn.Units, r.conn.Processes, r.conn.Cgroups, r.conn.Transients}
	m := &move{host: p.host, processes: p.processes, log: p.log, conn: r.conn, pid1: pid1, ended: &p.ended, caller: c, devices: p.config().Leases.DevicesFor(c.Groups)}
	var learned sync.WaitGroup
	learned.Go(func() { m.err = m.learn(ctx, &p.origins, r.loaded) })
	snapshot, _, err := p.collect(ctx, r)
	learned.Wait()
	if err != nil {
		r.conn.Close()
		return snapshot, nil, err
	}
	return snapshot, m, nil
}

func (m *move) Close() { m.conn.Close() }

// learn reads which limits and settings apply to the process.
func (m *move) learn(ctx context.Context, origins *originCache, loaded func() (uint64, error)) error {
	var err error
	if m.from, err = m.processes.cgroup(m.caller.PID); err != nil {
		return err
	}
	var ended sync.WaitGroup
	var notEnded error
	ended.Go(func() { notEnded = m.endLeftovers(ctx) })
	o, err := origins.read(ctx, m.host, m.conn, m.from, loaded)
	bounds, unread := lease.ReadBounds(m.processes.cgroups(), m.from)
	ended.Wait()
	if err := errors.Join(err, unread, notEnded); err != nil {
		return err
	}
	m.usePIDFD, m.properties = o.usePIDFD, append(limits(bounds), o.properties...)
	if o.unknown != nil {
		m.notes = append(m.notes, "cannot read which other limits applied: "+o.unknown.Error())
	}
	for _, other := range slices.Concat(bounds.Others, o.lost) {
		m.notes = append(m.notes, "not taken over: "+other)
	}
	return nil
}

// endLeftovers ends leases of an earlier run of the caller's service. Their partitions are free a
// moment later.
func (m *move) endLeftovers(ctx context.Context) error {
	service, run, err := m.conn.Processes.ServiceRun(ctx, m.from)
	if err != nil || service == "" || m.ended.has(service, run) {
		return err
	}
	leftovers, err := m.conn.Processes.Leftovers(ctx, service, run, lease.Made)
	for _, unit := range leftovers {
		m.log.Info("ending a lease of an earlier run of its service", "unit", unit)
		err = errors.Join(err, m.conn.Jobs.Stop(ctx, unit))
	}
	if err == nil {
		m.ended.add(service, run)
	}
	return err
}

// serviceRuns contains the runs of services whose earlier runs have no lease any more: they have
// ended, and no new one can start. To check that takes a call to PID 1 for each lease of the service.
type serviceRuns struct {
	mu   sync.Mutex
	runs map[string]uint64 // service → start of its run
}

// maxServiceRuns is the number of services that are kept.
const maxServiceRuns = 256

func (s *serviceRuns) has(service string, run uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.runs[service]
	return ok && known == run
}

func (s *serviceRuns) add(service string, run uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil || len(s.runs) >= maxServiceRuns {
		s.runs = make(map[string]uint64)
	}
	s.runs[service] = run
}

// makerTimeout is TimeoutStartSec= of dcm-make@.service.
const makerTimeout = 3 * time.Minute

// startTimeout returns how long the start of a scope may take. PID 1 starts what it requires first: a maker waits
// for others, and for the driver.
func startTimeout(s lease.Scope) time.Duration {
	if s.Requires == "" {
		return HostTimeout
	}
	return makerTimeout + HostTimeout
}

// dependencies returns the units that the scope requires, wants and is ordered after.
func dependencies(s lease.Scope) []systemd.Property {
	wants, after := slices.Clone(s.Cleans), slices.Clone(s.Cleans)
	var out []systemd.Property
	if s.Requires != "" {
		out, after = append(out, systemd.Property{Name: "Requires", Value: []string{s.Requires}}), append(after, s.Requires)
	}
	if s.Wants != "" {
		wants = append(wants, s.Wants)
	}
	if len(wants) > 0 {
		out = append(out, systemd.Property{Name: "Wants", Value: wants})
	}
	if len(after) > 0 {
		out = append(out, systemd.Property{Name: "After", Value: after})
	}
	return out
}

// Start creates the scope.
func (m *move) Start(ctx context.Context, s lease.Scope) ([]string, error) {
	if m.err != nil {
		return nil, m.err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout(s))
	defer cancel()
	extra := slices.Clone(m.properties)
	if s.Time > 0 {
		extra = append(extra, systemd.Property{Name: "RuntimeMaxUSec", Value: uint64(s.Time.Microseconds())})
	}
	if s.Hold {
		extra = append(extra, systemd.Property{Name: "Delegate", Value: true})
	}
	extra = append(extra, dependencies(s)...)
	allow, refused := s.Allow, []string(nil)
	if len(allow) > 0 { // a process that waits can open no device
		var others []string
		others, refused = OtherDevices(m.host, m.devices)
		allow = slices.Concat(allow, others)
	}
	scope := systemd.Scope{Name: s.Unit, Description: s.Description, Slice: systemd.LeaseConfinement().Slice, PID: uint32(m.caller.PID), Allow: allow, Extra: extra}
	if m.usePIDFD {
		scope.PIDFD = m.caller.Process.FD()
	}
	err := m.conn.Transients.StartScope(ctx, scope)
	if errors.Is(err, systemd.ErrDependency) {
		err = fmt.Errorf("%w\nhint: the reason is in the journal: journalctl --unit=%s", err, s.Requires)
	}
	switch conflict := errors.Is(err, systemd.ErrConflict); {
	case conflict && s.Requires != "":
		err = fmt.Errorf("%w: %s", lease.ErrEnding, s.Requires)
	case conflict || errors.Is(err, systemd.ErrNoProcess):
		err = fmt.Errorf("%w: %w", lease.ErrNotMoved, err)
	}
	if err == nil {
		err = m.processes.inside(m.caller.PID, s.Unit)
	} else {
		err = explainFull(err, freeSpace(m.host.Path("run")))
	}
	notes := slices.Concat(m.notes, refused)
	for _, node := range MissingNodes(m.host, s.Allow) {
		notes = append(notes, node+": does not exist, and a lease cannot open a node that is created later")
	}
	return notes, err
}
