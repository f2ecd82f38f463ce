package service

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
const lesseeGroup = "dcm"

// leaseService gives leases to who asks over the bus. It is a [dbusapi.LeaseService].
type leaseService struct {
	keeper *lease.Allocator
	config func() *config.Config // in force
	log    *slog.Logger
	ground *leaseHost
}

func newLessor(h *host.Host, inForce func() *config.Config, log *slog.Logger) *leaseService {
	p := &leaseHost{host: h, node: openFiles(h), config: inForce, log: log}
	return &leaseService{keeper: &lease.Allocator{Host: p, Common: []string{Common}, Regroup: regroup, Member: p.member}, config: inForce, log: log, ground: p}
}

// regrouping is what those have to be back who stood in line with the daemon before: the
// bus tells them at once that there is another.
const regrouping = 2 * time.Second

func regroup() <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(regrouping, func() { close(over) })
	return over
}

func (l *leaseService) Member(groups []uint32) bool {
	g, err := user.LookupGroup(lesseeGroup)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(groups, func(gid uint32) bool { return strconv.Itoa(int(gid)) == g.Gid })
}

func (l *leaseService) Acquire(ctx context.Context, who dbusapi.Caller, w dbusapi.Request) (dbusapi.Lease, error) {
	r, err := request(w)
	if err != nil {
		return dbusapi.Lease{}, err
	}
	if err := who.Process.Check(); err != nil {
		return dbusapi.Lease{}, err
	}
	caller := lease.Caller{UID: who.Owner, PID: who.PID, Process: who.Process, Came: who.ConnectionAge, Groups: l.limited(who.Owner, who.Groups)}
	if w.DryRun {
		c, err := l.keeper.Consider(ctx, caller, r)
		return dbusapi.Lease{Partitions: names(c), Reason: c.Reason}, passing(err)
	}
	given, err := l.keeper.Acquire(ctx, caller, r)
	if err != nil {
		return dbusapi.Lease{}, passing(err)
	}
	l.log.Info("a lease was given: "+given.Choice.Reason, "unit", given.Unit, "uid", who.Owner)
	for _, unit := range given.Replaced {
		l.log.Warn("an exclusive lease was replaced: other processes had opened its partitions", "unit", unit, "by", given.Unit)
	}
	if r.Kind == lease.Exclusive {
		for _, unit := range append(given.Replaced, given.Unit) {
			go l.ground.reopen(context.WithoutCancel(ctx), unit) // longer than the call
		}
	}
	return dbusapi.Lease{Unit: given.Unit, Partitions: names(given.Choice), Reason: given.Choice.Reason, Notes: given.Notes}, nil
}

func (l *leaseService) Release(ctx context.Context, who dbusapi.Caller, unit string) error {
	return l.keeper.Release(ctx, who.Owner, unit)
}

// Queue lists the requests that wait for a lease.
func (l *leaseService) Queue() []status.Queued {
	out, names := []status.Queued{}, make(map[uint32]string)
	for _, q := range l.keeper.Queue() {
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

func (l *leaseService) Dequeue(who dbusapi.Caller, id int) error {
	if err := l.keeper.Remove(who.Owner, id); err != nil {
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
	sought, err := partition.ParseSought(w.Vendor, w.Mode)
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
func passing(err error) error {
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
