package leaseservice

import (
	"context"
	"errors"
	"log/slog"
	"os/user"
	"slices"
	"strconv"
	"time"

	"dcm/internal/app/host"
	"dcm/internal/engine/config"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
)

// lesseeGroup is whose members may have leases without being asked about.
const leaseGroup = "dcm"

// leaseService gives leases to who asks over the bus. It is a [dbusapi.LeaseService].
type Service struct {
	allocator *lease.Allocator
	config    func() *config.Config // in force
	log       *slog.Logger
	host      *Host
}

func New(h *host.Host, effective func() *config.Config, guardChanged func(), log *slog.Logger) *Service {
	p := newHost(h, effective, log)
	p.guardChanged = guardChanged
	return &Service{allocator: &lease.Allocator{Host: p, Common: []string{lease.CommonNode}, Regroup: startRejoinWindow, Member: p.member}, config: effective, log: log, host: p}
}

// regrouping is what those have to be back who stood in line with the daemon before: the
// bus tells them at once that there is another.
const rejoinWindow = 2 * time.Second

func startRejoinWindow() <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(rejoinWindow, func() { close(over) })
	return over
}

// Resume continues what an earlier daemon began: it waits for the ends of exclusive leases and
// ends scopes without processes.
func (l *Service) Resume(ctx context.Context) {
	l.host.watchExclusive(ctx)
	l.host.EndEmptyScopes(ctx)
}

func (l *Service) Member(groups []uint32) bool {
	g, err := user.LookupGroup(leaseGroup)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(groups, func(gid uint32) bool { return strconv.Itoa(int(gid)) == g.Gid })
}

func (l *Service) Acquire(ctx context.Context, who dbusapi.Caller, w dbusapi.Request) (dbusapi.Lease, error) {
	r, err := request(w)
	if err != nil {
		return dbusapi.Lease{}, err
	}
	if err := who.Process.Check(); err != nil {
		return dbusapi.Lease{}, err
	}
	caller := lease.Caller{UID: who.Owner, PID: who.PID, Process: who.Process, Came: who.ConnectionAge, Groups: l.groupsOf(who.Owner, who.Groups)}
	if w.DryRun {
		c, err := l.allocator.Consider(ctx, caller, r)
		return dbusapi.Lease{Partitions: names(c), Reason: c.Reason}, withClass(err)
	}
	given, err := l.allocator.Acquire(ctx, caller, r)
	if err != nil {
		return dbusapi.Lease{}, withClass(err)
	}
	l.log.Info("a lease was given: "+given.Choice.Reason, "unit", given.Unit, "uid", who.Owner)
	for _, unit := range given.Replaced {
		l.log.Warn("an exclusive lease was replaced: other processes had opened its partitions", "unit", unit, "by", given.Unit)
	}
	if r.Kind == lease.Exclusive {
		for _, unit := range append(given.Replaced, given.Unit) {
			go l.host.awaitEnd(context.WithoutCancel(ctx), unit) // longer than the call
		}
	}
	return dbusapi.Lease{Unit: given.Unit, Partitions: names(given.Choice), Reason: given.Choice.Reason, Notes: given.Notes}, nil
}

func (l *Service) Release(ctx context.Context, who dbusapi.Caller, unit string) error {
	return l.allocator.Release(ctx, who.Owner, unit)
}

// Queue lists the requests that wait for a lease.
func (l *Service) Queue() []status.Queued {
	out, names := []status.Queued{}, make(map[uint32]string)
	for _, q := range l.allocator.Queue() {
		if names[q.UID] == "" {
			names[q.UID] = host.UserName(q.UID)
		}
		out = append(out, status.Queued{
			Position: q.Position, ID: q.PID, UID: q.UID, User: names[q.UID], Partitions: q.Partitions, GPUs: q.GPUs,
			Exclusive: q.Kind == lease.Exclusive, Share: q.Of, Time: q.Time.Seconds(), Since: q.Since, Reason: q.Reason,
		})
	}
	return out
}

func (l *Service) Dequeue(who dbusapi.Caller, id int) error {
	if err := l.allocator.Remove(who.Owner, id); err != nil {
		return err
	}
	l.log.Info("a request was removed from the queue", "process", id, "uid", who.Owner)
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
	r := lease.Request{Want: placement.Want{Partitions: w.Partitions, GPUs: w.GPUs, Place: place}, Sought: sought, Kind: lease.Confined, Wait: w.Wait, Time: w.Time, What: w.Command}
	switch {
	case w.Exclusive:
		r.Kind = lease.Exclusive
	case w.Share > 0:
		r.Kind, r.Of = lease.Shared, w.Share
	}
	if w.Queued != nil {
		r.Moved = func(q lease.Queued, of int) {
			w.Queued(dbusapi.QueuePosition{At: q.Position, Of: of, Reason: q.Reason})
		}
	}
	return r, nil
}

// passing marks the errors that another try may not meet, and those that every try meets.
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
