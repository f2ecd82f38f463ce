package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// blockers finds the holders that a restart of the clients would leave on the GPUs.
type blockers struct {
	states   UnitReader
	order    OrderReader
	restart  restart
	settings Settings
	fit      func(units []string) []string
	stuck    []blocker // why units that the restart stops would still hold a GPU
}

// blocker is the reason why a restart would not free the GPUs, although it stops the unit of the
// holder.
type blocker struct{ text, hint string }

// remaining returns the holders whose units the restart would not stop, or would start before the
// GPUs are changed.
func (b *blockers) remaining(ctx context.Context, holders []runstate.Holder) ([]runstate.Holder, error) {
	var out []runstate.Holder
	stuck := make(map[string]bool) // by unit
	names := ids(b.restart.stopped)
	for _, h := range holders {
		if !slices.Contains(names, h.Unit) {
			out = append(out, h)
		}
	}
	for _, h := range holders {
		if !slices.Contains(names, h.Unit) {
			continue
		}
		if _, known := stuck[h.Unit]; !known {
			why, err := b.whyStuck(ctx, h.Unit, names)
			if err != nil {
				return nil, err
			}
			if stuck[h.Unit] = why != nil; why != nil {
				b.stuck = append(b.stuck, *why)
			}
		}
		if stuck[h.Unit] {
			out = append(out, h)
		}
	}
	return out, nil
}

func (b *blockers) whyStuck(ctx context.Context, unit string, stopped []string) (*blocker, error) {
	frozen, err := b.states.Frozen(ctx, unit)
	if err != nil {
		return nil, err
	}
	if frozen {
		return &blocker{"systemd cannot restart " + unit + ": it is frozen", "systemctl thaw " + unit}, nil
	}
	if slices.Contains(ids(b.restart.clients), unit) {
		return nil, nil // ordered by dcm's own drop-in
	}
	after, err := b.order.OrderedAfter(ctx, unit, b.restart.unit, stopped)
	if err != nil || after {
		return nil, err
	}
	return &blocker{unit + " depends on a client and is restarted with it, but is not ordered after it: it would start before the GPUs are changed",
		fmt.Sprintf("list %s under [clients], or give it an After= of the client", unit)}, nil
}

// unrestartable describes the clients among the holders that systemd cannot restart.
func (b *blockers) unrestartable(holders []runstate.Holder) []blocker {
	var out []blocker
	for _, c := range b.restart.clients {
		holds := slices.ContainsFunc(holders, func(h runstate.Holder) bool { return h.Unit == c.ID })
		if !holds || !c.Up() || c.Load == "loaded" {
			continue
		}
		why := "its unit file cannot be used (" + c.Load + ")"
		switch c.Load {
		case "masked":
			why = "it is masked"
		case "not-found":
			why = "its unit file is gone"
		}
		out = append(out, blocker{"systemd cannot restart " + c.ID + ", a client: " + why,
			"give " + c.ID + " a valid unit file (systemctl unmask, or restore it; then systemctl daemon-reload), or stop it"})
	}
	return out
}

// includable returns the units of the holders if all of them may become clients.
func (b *blockers) includable(holders []runstate.Holder) []string {
	found := b.fit(b.unlisted(holders))
	if !b.settings.Include || slices.ContainsFunc(holders, func(h runstate.Holder) bool { return !slices.Contains(found, h.Unit) }) {
		return nil
	}
	return found
}

// unlisted returns the units of the holders that are no clients, each once.
func (b *blockers) unlisted(holders []runstate.Holder) []string {
	var out []string
	for _, h := range holders {
		if h.Unit != "" && !slices.Contains(ids(b.restart.clients), h.Unit) && !slices.Contains(out, h.Unit) {
			out = append(out, h.Unit)
		}
	}
	return out
}

// refuse is the result of a run that these holders would block.
func (b *blockers) refuse(holders []runstate.Holder) result {
	out := result{failure: runstate.InUse(holders), holders: holders}
	var hints []string
	for _, why := range append(b.unrestartable(holders), b.stuck...) {
		out.failure.Text += "; " + why.text
		hints = append(hints, why.hint)
	}
	if len(hints) > 0 {
		out.failure.Hint = strings.Join(hints, "; ") + runstate.Again
	}
	if b.settings.Suggest || b.settings.Include {
		for _, unit := range b.fit(b.unlisted(holders)) {
			out.hints = append(out.hints, unit+" has a GPU open and is not listed under [clients]; if listed, it is restarted around a change")
		}
	}
	return out
}

// describeCycle names a client that is ordered before the oneshot, although the oneshot is ordered
// before all clients.
func describeCycle(ctx context.Context, u OrderReader, run string, clients []systemd.Unit) *runstate.Error {
	e := &runstate.Error{Text: "systemd refuses the restart: clients and " + run + " wait for each other", Transient: true}
	path, err := u.OrderingPath(ctx, run, ids(clients))
	switch {
	case err != nil:
		e.Text += "; cannot determine which: " + err.Error()
	case path != nil:
		e.Text += ": " + strings.Join(path, " is ordered after ") + ", a client"
		e.Hint = "a client must not be ordered before " + run + ": systemctl cat " + strings.Join(path[1:], " ") + " shows where it is (Before=, or After= of the one before); then systemctl daemon-reload"
	}
	return e
}
