package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/lease"
	"dcm/internal/report"
	"dcm/internal/unitname"
)

// resume goes on where the daemon before has left off: exclusive leases may have ended
// since, and others will.
func (p *premises) resume(ctx context.Context) {
	state, err := report.ReadGuard(p.host.Runtime())
	if err != nil || state == nil || !state.Loaded {
		return
	}
	list, err := p.tenantsNow(ctx)
	last, unread := report.ReadPartitions(p.host.Runtime())
	if err := errors.Join(err, unread); err != nil || last == nil {
		p.log.Warn(fmt.Sprintf("it cannot be told which exclusive leases there are: %v", err))
		return
	}
	units := make(map[string][]string)
	for _, t := range list {
		units[t.Unit] = t.Allowed
		if n, ok := lease.ParseName(t.Unit); ok && n.Kind == lease.Exclusive {
			go p.reopen(ctx, t.Unit)
		}
	}
	// Else it is left alone: somebody may be about to restart it with the reservations.
	if len(lease.ExclusiveNodes(*last, units)) < state.Devices {
		if why := p.Guard(ctx); why != "" {
			p.log.Warn("what was exclusive may still be closed to others: " + why)
		}
	}
}

// sweep ends leases that nobody is in: their processes were about to exit when a daemon
// asked for the scope that did not live to see it. No process comes into them any more.
func (p *premises) sweep(ctx context.Context) {
	if !slices.ContainsFunc(p.host.Leased(), p.empty) {
		return // mostly, and then nobody is asked
	}
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return // there are leases if there is a systemd
	}
	defer conn.Close()
	list, err := conn.Tenants(ctx, unitname.Slice)
	for _, t := range list {
		if leased(t.Unit) && t.Active == "active" && p.empty(t.Unit) {
			p.log.Info("a lease that nobody is in is ended", "unit", t.Unit)
			err = errors.Join(err, conn.Stop(ctx, t.Unit))
		}
	}
	if err != nil {
		p.log.Warn(fmt.Sprintf("it cannot be told whether there are leases that nobody is in: %v", err))
	}
}

// empty tells whether a unit of the slice has no process. One whose cgroup is not there is
// being begun or ended.
func (p *premises) empty(unit string) bool {
	text, err := os.ReadFile(p.host.Path("sys/fs/cgroup", unitname.Slice, unit, "cgroup.events"))
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), "populated 0")
}

// reopen has the guard let everybody in again when an exclusive lease has ended.
func (p *premises) reopen(ctx context.Context, unit string) {
	for ctx.Err() == nil {
		changed := p.Changed(ctx)
		list, err := p.tenantsNow(ctx)
		if err == nil && !slices.ContainsFunc(list, func(t lease.Tenant) bool { return t.Unit == unit }) {
			if why := p.Guard(ctx); why != "" {
				p.log.Warn("a partition whose exclusive lease has ended may still be closed to others: "+why, "unit", unit)
			}
			return
		}
		<-changed
	}
}
