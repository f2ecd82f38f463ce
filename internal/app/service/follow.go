package service

import (
	"context"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/watch"
)

// How long a run's report has to be quiet for what it says to be shown, and how long
// that may be put off.
const (
	stepped = 100 * time.Millisecond
	latest  = 500 * time.Millisecond
)

// accompany has each step of a run shown, while one is under way: the daemon itself
// waits for the end.
func (p *statusPublisher) accompany(ctx context.Context, phase runstate.Phase) {
	switch {
	case phase != runstate.Applying && p.running != nil:
		p.running()
		p.running = nil
		select {
		case <-p.again: // a last step, which is shown with the verdict
		default:
		}
	case phase == runstate.Applying && p.running == nil:
		ctx, p.running = context.WithCancel(ctx)
		changed, err := new(watch.Set).FilesWithin(ctx, []string{p.host.Runtime()}, stepped, latest, p.log)
		if err != nil { // too many are watched on this host, say
			p.log.Warn("the steps of the run are not told on the bus", "error", err)
			return
		}
		go func() {
			for range changed {
				p.refresh()
			}
		}()
	}
}

// follow waits for changes of clients that are down, so that the status is taken again.
func (p *statusPublisher) follow(ctx context.Context, a status.Account) {
	p.waiting()
	p.waiting = func() {}
	down := a.DownClients()
	if len(down) == 0 || !p.host.Here() || !isAtRest(a.Daemon.Phase) {
		return
	}
	ctx, p.waiting = context.WithCancel(ctx)
	go func() {
		conn, err := p.host.DialToWait(ctx)
		if err != nil {
			return // the next account tells
		}
		defer conn.Close()
		if conn.Units.Changed(ctx, down) == nil {
			p.refresh()
		}
	}()
}
