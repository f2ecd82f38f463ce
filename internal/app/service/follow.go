package service

import (
	"context"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// accompany publishes each step during a run. The daemon's loop waits for the end only.
func (p *statusPublisher) accompany(ctx context.Context, phase runstate.Phase) {
	switch {
	case phase != runstate.Applying && p.running != nil:
		p.running()
		p.running = nil
		select {
		case <-p.again: // the last step is published with the result
		default:
		}
	case phase == runstate.Applying && p.running == nil:
		ctx, p.running = context.WithCancel(ctx)
		changed, err := p.steps(ctx)
		if err != nil {
			p.log.Warn("cannot publish the steps of the run on the bus", "error", err)
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
			return // the next status shows the clients
		}
		defer conn.Close()
		if conn.Units.Changed(ctx, down) == nil {
			p.refresh()
		}
	}()
}
