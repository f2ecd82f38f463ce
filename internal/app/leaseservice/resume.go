package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/engine/host"
	"dcm/internal/leases/exclusive"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// watchExclusive waits for the ends of the exclusive leases that an earlier daemon has allocated.
func (p *Host) watchExclusive(ctx context.Context) {
	for _, unit := range host.LeaseUnits(p.host) {
		if exclusive.Lease(unit) {
			go p.awaitEnd(ctx, unit)
		}
	}
}

// EndEmptyScopes ends scopes of leases, and of waiting processes, that have no process. Their
// processes were about to exit when a daemon requested the scope, and that daemon ended before it
// saw that. No process enters them any more.
func (p *Host) EndEmptyScopes(ctx context.Context) {
	if len(p.abandoned()) == 0 {
		return // mostly, and then PID 1 is not asked
	}
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return // there are leases if there is a systemd
	}
	defer conn.Close()
	list, err := conn.Cgroups.UnitsInSlice(ctx, unitname.Slice, nil)
	for _, t := range list {
		if lease.Made(t.Unit) && t.Active == "active" && p.empty(t.Unit) {
			p.log.Info("ending a scope without processes", "unit", t.Unit)
			err = errors.Join(err, conn.Jobs.Stop(ctx, t.Unit))
		}
	}
	if err != nil {
		p.log.Warn(fmt.Sprintf("cannot end the scopes without processes: %v", err))
	}
}

// abandoned lists the scopes that dcm has made and that have no process.
func (p *Host) abandoned() []string {
	entries, _ := os.ReadDir(p.host.Path("sys/fs/cgroup", unitname.Slice)) // not there: no scope was ever made
	var out []string
	for _, e := range entries {
		if lease.Made(e.Name()) && p.empty(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// empty reports whether a unit of the slice has no process. A unit without cgroup is being started
// or stopped.
func (p *Host) empty(unit string) bool {
	text, err := os.ReadFile(p.host.Path("sys/fs/cgroup", unitname.Slice, unit, "cgroup.events"))
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), "populated 0")
}

// awaitEnd has the guard's table compared when an exclusive lease has ended: other holders may open
// its partitions then.
func (p *Host) awaitEnd(ctx context.Context, unit string) {
	for ctx.Err() == nil {
		changed := p.Changed(ctx)
		if !slices.Contains(host.LeaseUnits(p.host), unit) {
			p.guardChanged()
			return
		}
		<-changed
	}
}
