package leaseservice

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
	"dcm/internal/linux/watch"
)

// endQuietInterval is how long the ends of leases are collected before they are processed together.
const endQuietInterval = 50 * time.Millisecond

// maxUserLabels is the number of users that have a metric of their own. otherUsers, which is not the name of a
// user, has the sum of the others.
const (
	maxUserLabels = 100
	otherUsers    = "(others)"
)

// lifetimes follows the leases from their starts to their ends: it counts the partition-seconds of users,
// and logs the counters of the partitions. It watches the cgroups only while there is a lease.
type lifetimes struct {
	units  func() []string // the leases that have not ended
	watch  func(ctx context.Context) (<-chan struct{}, error)
	record recorder
	over   func() // called when leases have ended, also those too short for counters
	now    func() time.Time
	log    *slog.Logger

	mu        sync.Mutex
	live      map[string]life
	following bool
	ended     map[string]float64 // partition-seconds of leases that have ended, by label of the user
	labels    map[uint32]string  // of the first maxUserLabels users
}

func newLifetimes(h *host.Host, record recorder, over func(), log *slog.Logger) *lifetimes {
	return &lifetimes{
		units: func() []string { return host.LeaseUnits(h) },
		watch: func(ctx context.Context) (<-chan struct{}, error) {
			return watch.Files(ctx, []string{h.Path("sys/fs/cgroup", unitname.Slice)}, endQuietInterval, log)
		},
		record: record, over: over, now: time.Now, log: log, live: make(map[string]life), ended: make(map[string]float64), labels: make(map[uint32]string),
	}
}

// begin adds a lease that has started.
func (f *lifetimes) begin(ctx context.Context, l status.Lease) {
	f.add(ctx, newLife(ctx, l, f.record))
}

// resume adds the leases of an earlier daemon, which has logged their start.
func (f *lifetimes) resume(ctx context.Context, leases []status.Lease) {
	for _, l := range leases {
		began := l.Since
		l.Since = f.now() // the earlier daemon has counted until then
		f.add(ctx, life{Lease: l, began: began})
	}
}

func (f *lifetimes) add(ctx context.Context, l life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[l.Lease.Lease] = l
	if _, known := f.labels[l.UID]; !known && len(f.labels) < maxUserLabels {
		f.labels[l.UID] = host.UserName(l.UID)
	}
	if !f.following {
		f.following = true
		go f.follow(context.WithoutCancel(ctx))
	}
}

// follow processes the ends of leases until there is none.
func (f *lifetimes) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed, err := f.watch(ctx)
	if err != nil {
		f.log.Warn(fmt.Sprintf("the ends of leases are noticed late: %v", err))
	}
	for {
		ended, last := f.endNow()
		if len(ended) > 0 {
			f.over()
		}
		for _, l := range ended {
			f.log.Info("a lease has ended: "+l.reason(f.now()), "unit", l.Lease.Lease, "uid", l.UID)
			l.end(ctx, f.record)
		}
		if last {
			return
		}
		awaitChange(ctx, changed, err != nil)
	}
}

// endNow removes the leases that have ended. last is true if none is left; then follow ends.
func (f *lifetimes) endNow() (ended []life, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	units := f.units()
	for _, unit := range slices.Sorted(maps.Keys(f.live)) {
		l := f.live[unit]
		if slices.Contains(units, unit) {
			continue
		}
		f.ended[f.label(l.UID)] += partitionSeconds(l.Lease, f.now())
		delete(f.live, unit)
		ended = append(ended, l)
	}
	if len(f.live) == 0 {
		f.following = false
	}
	return ended, !f.following
}

// partitionSeconds returns the partition-seconds of a lease until now. A partition that may be shared by
// three counts a third.
func partitionSeconds(l status.Lease, now time.Time) float64 {
	return max(now.Sub(l.Since).Seconds(), 0) * float64(len(l.Partitions)) / float64(max(l.Share, 1))
}

// label returns the name of a user in metrics.
func (f *lifetimes) label(uid uint32) string {
	if label, ok := f.labels[uid]; ok {
		return label
	}
	return otherUsers
}

// seconds returns the partition-seconds of leases since the start of the daemon, by user.
func (f *lifetimes) seconds() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := maps.Clone(f.ended)
	for _, l := range f.live {
		out[f.label(l.UID)] += partitionSeconds(l.Lease, f.now())
	}
	return out
}

// given follows a lease that was given, also after the call of ctx.
func (f *lifetimes) given(ctx context.Context, l lease.Lease) {
	if name, ok := unitname.ParseLease(l.Unit); ok {
		begun := status.Lease{Lease: l.Unit, UID: name.UID, Share: name.Of, Partitions: names(l.Choice), Since: f.now()}
		if l.Time > 0 {
			begun.Until = new(begun.Since.Add(l.Time))
		}
		f.begin(ctx, begun)
	}
}

// resumeAll follows the leases of an earlier daemon.
func (f *lifetimes) resumeAll(ctx context.Context, h *host.Host) {
	if len(f.units()) == 0 {
		return
	}
	leases, err := List(ctx, h)
	if err != nil {
		f.log.Warn(err.Error())
	}
	f.resume(ctx, leases)
}

// released records the user who releases a lease; "" if the release has failed.
func (f *lifetimes) released(unit, by string) {
	f.change(unit, func(l *life) { l.by = by })
}

// extended records the new time limit of a lease, which counts from its start.
func (f *lifetimes) extended(unit string, limit time.Duration) {
	f.change(unit, func(l *life) { l.Until = new(l.began.Add(limit)) })
}

func (f *lifetimes) change(unit string, change func(*life)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.live[unit]; ok {
		change(&l)
		f.live[unit] = l
	}
}
