package leaseservice

import (
	"context"
	"errors"
	"log/slog"
	"os/user"
	"slices"
	"strconv"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// leaseGroup is the group whose members may have leases without authorization.
const leaseGroup = "dcm"

// Service implements [dbusapi.LeaseService] and [dbusapi.QueueService].
type Service struct {
	allocator  *lease.Allocator
	config     func() *config.Config // the effective one
	log        *slog.Logger
	host       *host.Host
	partitions *Partitions
	exclusive  exclusiveEnds
	made       chan struct{} // of 1: a lease may make an instance
	notices    *notices
	lifetimes  *lifetimes
	services   services
	modes      modeLeases
	cleaned    chan struct{} // of 1: a partition may be cleaned

	statusChanged func() // see [New]

	// Used is called after the start and the end of a lease or service.
	Used func()
}

// New returns the service of the daemon. guardChanged is called when an exclusive lease has ended,
// and statusChanged when a unit for a lease or service has failed or no longer counts as failed.
func New(h *host.Host, effective func() *config.Config, guardChanged, statusChanged func(), log *slog.Logger) *Service {
	p := newPartitions(h, effective, log)
	s := &Service{
		allocator: lease.New(lease.Config{
			Host:   lease.Host{Partitions: p, Scopes: newScopes(h), Processes: p.processes, Protection: protection{h}},
			Common: []string{lease.CommonNode}, RejoinWindow: startRejoinWindow, Member: p.processes.member,
		}),
		config: effective, log: log, host: h, partitions: p, exclusive: exclusiveEnds{h, guardChanged}, made: make(chan struct{}, 1), notices: newNotices(h, log),
		statusChanged: statusChanged, Used: func() {}, cleaned: make(chan struct{}, 1),
	}
	counted := counters{h, p.node, log}
	record := func(ctx context.Context, l status.Lease, at string) {
		counted.record(ctx, l, at)
		s.Used()
	}
	s.lifetimes, s.services = newLifetimes(h, record, s.retryCleaningSoon, log), newServices(h, record, s.serviceEnded, log)
	return s
}

// rejoinWindow is how long callers that waited before a restart of the daemon have to reconnect.
// They learn of the restart immediately, from the bus.
const rejoinWindow = 2 * time.Second

func startRejoinWindow() <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(rejoinWindow, func() { close(over) })
	return over
}

// Resume continues the work of an earlier daemon: it waits for the ends of exclusive leases and ends
// scopes without processes.
func (s *Service) Resume(ctx context.Context) {
	s.exclusive.watchAll(ctx)
	s.lifetimes.resumeAll(ctx, s.host)
	EndEmptyScopes(ctx, s.host, s.log)
}

// Notify notifies users before the time limits of their leases, until ctx ends.
func (s *Service) Notify(ctx context.Context) { s.notices.run(ctx) }

// CountServices logs the counters at the starts and ends of reserved services, until ctx ends.
func (s *Service) CountServices(ctx context.Context) { s.services.run(ctx) }

// PartitionSeconds returns the partition-seconds of leases since the start of the daemon, by user. The users
// after the first 100 are added up.
func (s *Service) PartitionSeconds() map[string]float64 { return s.lifetimes.seconds() }

// Member reports whether one of the groups is the one whose members may have leases.
func (s *Service) Member(groups []uint32) bool {
	g, err := user.LookupGroup(leaseGroup)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(groups, func(gid uint32) bool { return strconv.Itoa(int(gid)) == g.Gid })
}

// Acquire moves the caller into a lease.
func (s *Service) Acquire(ctx context.Context, who dbusapi.Caller, w dbusapi.Request) (dbusapi.Lease, error) {
	r, err := request(w)
	if err != nil {
		return dbusapi.Lease{}, err
	}
	if err := who.Process.Check(); err != nil {
		return dbusapi.Lease{}, err
	}
	if err := s.name(ctx, w, &r); err != nil {
		return dbusapi.Lease{}, withClass(err)
	}
	caller := lease.Caller{UID: who.Owner, PID: who.PID, Process: who.Process, Seniority: who.ConnectionAge, Groups: s.groupsOf(who.Owner, who.Groups)}
	if w.DryRun {
		c, err := s.allocator.Consider(ctx, caller, r)
		return dbusapi.Lease{Partitions: names(c), Reason: c.Reason}, withClass(err)
	}
	if r.Make != "" {
		defer s.sweepSoon() // also after an error, which may leave an instance
	}
	given, err := s.allocator.Acquire(ctx, caller, r)
	if err != nil {
		return dbusapi.Lease{}, withClass(err)
	}
	if partition.IsMode(r.Make) {
		s.modes.note(given.Choice.Partitions[0].GPU)
	}
	s.log.Info("a lease was given: "+given.Choice.Reason, "unit", given.Unit, "uid", who.Owner)
	for _, unit := range given.Replaced {
		s.log.Warn("an exclusive lease was replaced: other processes had opened its partitions", "unit", unit, "by", given.Unit)
	}
	s.lifetimes.given(ctx, given)
	if given.Time > 0 {
		now := time.Now()
		given.Notes = append(given.Notes, untilNote(now, given))
		s.notices.expect(noticeAt(now, now.Add(given.Time)))
	}
	if r.Kind == unitname.ExclusiveLease {
		for _, unit := range append(given.Replaced, given.Unit) {
			go s.exclusive.watch(context.WithoutCancel(ctx), unit) // continues after the call
		}
	}
	return dbusapi.Lease{Unit: given.Unit, Partitions: names(given.Choice), Reason: given.Choice.Reason, Notes: given.Notes}, nil
}

// Release ends a lease.
func (s *Service) Release(ctx context.Context, who dbusapi.Caller, unit string) error {
	s.lifetimes.released(unit, host.UserName(who.Owner))
	err := s.allocator.Release(ctx, who.Owner, unit)
	if err != nil {
		s.lifetimes.released(unit, "")
	}
	return err
}

// Extend prolongs the time limit of a lease.
func (s *Service) Extend(ctx context.Context, who dbusapi.Caller, unit string, limit time.Duration) error {
	c := lease.Caller{UID: who.Owner, Groups: s.groupsOf(who.Owner, who.Groups)}
	if err := s.allocator.Extend(ctx, c, unit, limit); err != nil {
		return withClass(err)
	}
	s.notices.expect(time.Now()) // reads the new limit
	s.lifetimes.extended(unit, limit)
	s.log.Info("a lease was extended", "unit", unit, "uid", who.Owner, "time", limit)
	return nil
}

// Queue returns the requests that wait for a lease.
func (s *Service) Queue() []status.Queued {
	out, names := []status.Queued{}, make(map[uint32]string)
	for _, q := range s.allocator.Queue() {
		if names[q.UID] == "" {
			names[q.UID] = host.UserName(q.UID)
		}
		out = append(out, status.Queued{
			Position: q.Position, ID: q.PID, UID: q.UID, User: names[q.UID], Partitions: q.Partitions, GPUs: q.GPUs, Names: q.Names, Make: q.Make,
			Exclusive: q.Kind == unitname.ExclusiveLease, Share: q.Of, Time: q.Time.Seconds(), Since: q.Since, Reason: q.Reason,
		})
	}
	return out
}

// Dequeue removes a request from the queue.
func (s *Service) Dequeue(who dbusapi.Caller, id int) error {
	if err := s.allocator.Remove(who.Owner, id); err != nil {
		return err
	}
	s.log.Info("a request was removed from the queue", "process", id, "uid", who.Owner)
	return nil
}

func request(w dbusapi.Request) (lease.Request, error) {
	place, err := placement.ParsePlace(w.Place)
	if err != nil {
		return lease.Request{}, err
	}
	sought, err := partition.ParseCriteria(w.Vendor, w.Mode)
	if err != nil {
		return lease.Request{}, err
	}
	if err := checkMake(w); err != nil {
		return lease.Request{}, err
	}
	r := lease.Request{Make: w.Make, Want: placement.Want{Partitions: w.Partitions, GPUs: w.GPUs, Place: place}, Sought: sought, Kind: unitname.ConfinedLease, Wait: w.Wait, WaitLimit: w.WaitLimit, Hold: w.Hold, Time: w.Time, What: w.Command}
	switch {
	case w.Exclusive:
		r.Kind = unitname.ExclusiveLease
	case w.Share > 0:
		r.Kind, r.Of = unitname.SharedLease, w.Share
	}
	if w.Queued != nil {
		r.Moved = func(q lease.Queued, of int) {
			w.Queued(dbusapi.QueuePosition{At: q.Position, Of: of, Reason: q.Reason})
		}
	}
	return r, nil
}

// withClass marks errors that a later attempt may not meet, and errors that every attempt meets.
func withClass(err error) error {
	if impossible, ok := errors.AsType[*lease.ImpossibleError](err); ok {
		return &dbusapi.ImpossibleError{Err: impossible}
	}
	if lease.Passes(err) {
		return &dbusapi.InsufficientError{Err: err}
	}
	return err
}

func names(c placement.Choice) []string {
	out := make([]string, len(c.Partitions))
	for i, p := range c.Partitions {
		out[i] = p.Name
	}
	return out
}
