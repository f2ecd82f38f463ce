package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// unmanagedHolders deals with holders that a restart of the clients would not free: services
// among them become clients, if that is wanted and nobody else is in the way.
// Otherwise a restart would be in vain.
func (p *pass) unmanagedHolders(ctx context.Context, holders []runstate.Holder) result {
	if found := p.includable(holders); len(found) > 0 {
		p.Log.Info(fmt.Sprintf("%s: found using a GPU, and made a client until the next boot", strings.Join(found, ", ")))
		if err := p.Include(found); err != nil {
			return transient(err)
		}
		// The drop-ins of these settings have to name them too: otherwise systemd is not reloaded,
		// and the restart does not stop them.
		p.settings.Order.Clients = append(slices.Clone(p.settings.Order.Clients), found...)
		return p.do(ctx)
	}
	return p.refuse(holders)
}

// includable returns the units of the holders if they all may become clients.
func (p *pass) includable(holders []runstate.Holder) []string {
	found := p.Fit(p.unlisted(holders))
	if !p.settings.Include || slices.ContainsFunc(holders, func(h runstate.Holder) bool { return !slices.Contains(found, h.Unit) }) {
		return nil
	}
	return found
}

// refuse is the result of a run that these holders would be in the way of.
func (p *pass) refuse(holders []runstate.Holder) result {
	out := result{failure: runstate.InUse(holders), holders: holders}
	hindered(out.failure, append(p.unfit(holders), p.stuck...))
	if p.settings.Suggest || p.settings.Include {
		for _, unit := range p.Fit(p.unlisted(holders)) {
			out.advice = append(out.advice, unit+" has a GPU open and is not listed under [clients]; listed there, it would be restarted around a change")
		}
	}
	return out
}

// unlisted returns the units of the holders that are no clients, each once.
func (p *pass) unlisted(holders []runstate.Holder) []string {
	var out []string
	for _, h := range holders {
		if h.Unit != "" && !slices.Contains(ids(p.clients), h.Unit) && !slices.Contains(out, h.Unit) {
			out = append(out, h.Unit)
		}
	}
	return out
}

// cycle names the client that the oneshot waits for, and that waits for it.
func (p *pass) cycle(ctx context.Context, u Units) *runstate.Error {
	e := &runstate.Error{Text: "systemd makes no transaction: clients and " + unitname.Apply + " wait for each other", Transient: true}
	way, err := u.OrderingPath(ctx, unitname.Apply, ids(p.clients))
	switch {
	case err != nil:
		e.Text += "; cannot tell which: " + err.Error()
	case way != nil:
		e.Text += ": " + strings.Join(way, " is ordered after ") + ", a client"
		e.Cure = "a client must not be ordered before " + unitname.Apply + ": systemctl cat " + strings.Join(way[1:], " ") + " shows where it is (Before=, or After= of the one before); then systemctl daemon-reload"
	}
	return e
}
