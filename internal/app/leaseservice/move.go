package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
	"dcm/internal/sanitize"
)

// move moves one process into a scope. The process is read while the allocations are read, by the
// same connection: a caller waits for the lease.
type move struct {
	*Host
	conn       *systemd.Conn
	pid1       moveUnits // its parts that Undo calls
	caller     lease.Caller
	from       string             // the cgroup that it is in before
	usePIDFD   bool               // systemd takes its pidfd
	properties []systemd.Property // that hold the process where it is, and are taken over
	notes      []string           // of what is not
	err        error              // what kept that from being known
}

// Prepare is Snapshot, with what has to be read of a process to move it.
func (p *Host) Prepare(ctx context.Context, c lease.Caller) (lease.Snapshot, lease.Move, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	last, err := p.partitions()
	if err != nil {
		return lease.Snapshot{}, nil, err
	}
	seen := p.startScan(ctx, last)
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return lease.Snapshot{}, nil, err
	}
	loaded := loadedOnce(ctx, conn)
	m := &move{Host: p, conn: conn, pid1: moveUnits{conn.Jobs, conn.Units, conn.Processes, conn.Cgroups, conn.Transients}, caller: c}
	var known sync.WaitGroup
	known.Go(func() { m.err = m.learn(ctx, loaded) })
	snapshot, _, err := p.snapshotBy(ctx, conn, last, loaded, seen)
	known.Wait()
	if err != nil {
		conn.Close()
		return snapshot, nil, err
	}
	return snapshot, m, nil
}

func (m *move) Close() { m.conn.Close() }

// learn reads which limits and settings apply to the process.
func (m *move) learn(ctx context.Context, loaded func() (uint64, error)) error {
	var err error
	if m.from, err = m.cgroup(m.caller.PID); err != nil {
		return err
	}
	var ended sync.WaitGroup
	var notEnded error
	ended.Go(func() { notEnded = m.endLeftovers(ctx) })
	o, err := m.Host.origins.read(ctx, m.host, m.conn, m.from, loaded)
	bounds, unread := lease.ReadBounds(m.host.Path("sys/fs/cgroup"), m.from)
	ended.Wait()
	if err := errors.Join(err, unread, notEnded); err != nil {
		return err
	}
	m.usePIDFD, m.properties = o.usePIDFD, append(limits(bounds), o.properties...)
	if o.unknown != nil {
		m.notes = append(m.notes, "it is not known what else was in force: "+o.unknown.Error())
	}
	for _, other := range slices.Concat(bounds.Others, o.lost) {
		m.notes = append(m.notes, "not taken over: "+other)
	}
	return nil
}

// endLeftovers ends leases of an earlier run of the caller's service. What they hold is
// free a moment later.
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

// serviceRuns are runs of services that have no lease of an earlier run: it was ended, and
// none can begin. To find that out takes a call to PID 1 for each lease of the service.
type serviceRuns struct {
	mu   sync.Mutex
	runs map[string]uint64 // when each started
}

// knownRuns is how many services are kept; the others are looked up again.
const knownRuns = 256

func (s *serviceRuns) has(service string, run uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.runs[service]
	return ok && known == run
}

func (s *serviceRuns) add(service string, run uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil || len(s.runs) >= knownRuns {
		s.runs = make(map[string]uint64)
	}
	s.runs[service] = run
}

// Start has the scope made.
func (m *move) Start(ctx context.Context, s lease.Scope) ([]string, error) {
	if m.err != nil {
		return nil, m.err
	}
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	extra := slices.Clone(m.properties)
	if s.Time > 0 {
		extra = append(extra, systemd.Property{Name: "RuntimeMaxUSec", Value: uint64(s.Time.Microseconds())})
	}
	scope := systemd.Scope{Name: s.Unit, Description: s.Description, Slice: systemd.LeaseConfinement().Slice, PID: uint32(m.caller.PID), Allow: s.Allow, Extra: extra}
	if m.usePIDFD {
		scope.PIDFD = m.caller.Process.FD()
	}
	err := m.conn.Transients.StartScope(ctx, scope)
	if errors.Is(err, systemd.ErrNoProcess) {
		err = fmt.Errorf("%w: %w", lease.ErrNotMoved, err)
	}
	if err == nil {
		err = m.inside(m.caller.PID, s.Unit)
	}
	notes := slices.Clone(m.notes)
	for _, node := range MissingNodes(m.host, s.Allow) {
		notes = append(notes, node+" is not there, and will not open in the lease when it comes")
	}
	return notes, err
}

// inside returns an error if a process did not get into its scope. The kernel does not move a
// process that is about to exit, and reports no error, and neither does systemd: the scope is
// active and empty, and would stay so.
func (p *Host) inside(pid int, unit string) error {
	now, err := p.cgroup(pid)
	if err == nil && filepath.Base(now) != unit {
		err = fmt.Errorf("process %d is in %s: it was about to end", pid, sanitize.Text(now))
	}
	return err
}

// cgroup is where a process is, in the unified hierarchy.
func (p *Host) cgroup(pid int) (string, error) {
	text, err := os.ReadFile(p.host.Path("proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimRight(path, "\n"), nil
		}
	}
	return "", errors.New("the host has no unified cgroup hierarchy")
}
