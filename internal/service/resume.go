package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/exclusive"
	"dcm/internal/unitname"
)

// resume waits for the ends of the exclusive leases that an earlier daemon has given.
func (p *premises) resume(ctx context.Context) {
	for _, unit := range p.host.Leased() {
		if exclusive.Lease(unit) {
			go p.reopen(ctx, unit)
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
	list, err := conn.Tenants(ctx, unitname.Slice, nil)
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

// reopen has the guard's table compared when an exclusive lease has ended: what it had may
// open for others.
func (p *premises) reopen(ctx context.Context, unit string) {
	for ctx.Err() == nil {
		changed := p.Changed(ctx)
		if !slices.Contains(p.host.Leased(), unit) {
			p.guardian.nudge()
			return
		}
		<-changed
	}
}
