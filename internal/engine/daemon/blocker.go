package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// blocker is why a restart would be in vain, though the unit of a holder is among those
// that dcm has restarted.
type blocker struct{ text, cure string }

// unfit tells of clients among the holders that systemd cannot restart.
func (p *pass) unfit(holders []runstate.Holder) []blocker {
	var out []blocker
	for _, c := range p.clients {
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
			"give " + c.ID + " a unit file that can be used (systemctl unmask, or put it back; then systemctl daemon-reload), or stop it"})
	}
	return out
}

// remainingHolders returns the holders that a restart of the units would leave on the GPUs, or
// bring back too early. Of those among the units it notes why.
func (p *pass) remainingHolders(ctx context.Context, u Units, holders []runstate.Holder, units []systemd.Unit) ([]runstate.Holder, error) {
	out := remaining(holders, units)
	p.stuck = nil
	stuck := make(map[string]bool) // by unit
	for _, h := range holders {
		if slices.ContainsFunc(out, func(o runstate.Holder) bool { return o.PID == h.PID }) {
			continue
		}
		if _, known := stuck[h.Unit]; !known {
			why, err := p.whyStuck(ctx, u, h.Unit, units)
			if err != nil {
				return nil, err
			}
			if stuck[h.Unit] = why != nil; why != nil {
				p.stuck = append(p.stuck, *why)
			}
		}
		if stuck[h.Unit] {
			out = append(out, h)
		}
	}
	return out, nil
}

func (p *pass) whyStuck(ctx context.Context, u Units, unit string, units []systemd.Unit) (*blocker, error) {
	frozen, err := u.Frozen(ctx, unit)
	if err != nil {
		return nil, err
	}
	if frozen {
		return &blocker{"systemd cannot restart " + unit + ": it is frozen", "systemctl thaw " + unit}, nil
	}
	if slices.Contains(ids(p.clients), unit) {
		return nil, nil // by dcm's own drop-in
	}
	behind, err := u.OrderedAfter(ctx, unit, unitname.Apply, ids(units))
	if err != nil || behind {
		return nil, err
	}
	return &blocker{unit + " depends on a client and is restarted with it, but not ordered behind it: it would be back before the GPUs are changed",
		fmt.Sprintf("list %s under [clients], or give it an After= of the client", unit)}, nil
}

// hindered adds to an error what hinders a restart, and what to do about that.
func hindered(e *runstate.Error, by []blocker) {
	var cures []string
	for _, h := range by {
		e.Text += "; " + h.text
		cures = append(cures, h.cure)
	}
	if len(cures) > 0 {
		e.Cure = strings.Join(cures, "; ") + runstate.Again
	}
}
