package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// verify waits until the clients, and what else the run has taken down, have come to
// rest, and compares. Of the units that trigger clients, which it does not take down, it
// names those that the run has made fail.
func (p *pass) verify(ctx context.Context, u Units, t transaction, triggers []systemd.Unit, run *result) {
	limit, cancel := context.WithTimeout(ctx, p.Limits.Clients)
	defer cancel()
	p.extend(p.Limits.Clients)
	before := with(t.clients, t.bounced)
	own := len(before)
	before = with(before, triggers)
	after, err := u.Settle(limit, names(before))
	if err != nil {
		p.Log.Error("cannot follow the clients' return", "error", err)
	}
	now := make(map[string]systemd.Unit, len(after))
	for _, a := range after {
		now[a.Name] = a
	}
	run.clients = make([]runstate.Client, 0, own)
	for i, b := range before {
		if i < own || !client(b, now[b.Name]).Back {
			run.clients = append(run.clients, p.compare(b, now[b.Name]))
		}
	}
	run.restart.Settled = time.Now()
	if run.failure == nil && run.later == nil && run.problem == nil && !run.late {
		run.problem = notBack(run.clients)
	}
	p.owes = p.owes.kept(after)
}

// with returns the units and those of the others that are not among them.
func with(units, others []systemd.Unit) []systemd.Unit {
	out := slices.Clone(units)
	for _, o := range others {
		if !slices.ContainsFunc(out, func(u systemd.Unit) bool { return u.ID == o.ID }) {
			out = append(out, o)
		}
	}
	return out
}

func names(units []systemd.Unit) []string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = u.Name
	}
	return out
}

// compare tells of a unit that is not as it was.
func (p *pass) compare(before, now systemd.Unit) runstate.Client {
	c := client(before, now)
	if !c.Back {
		p.Log.Error(fmt.Sprintf("%s is not back: it was %s and is %s", c.Unit, c.Before, c.Now),
			"unit", c.Unit, "before", c.Before, "now", c.Now, "result", c.Result, "restarts", c.Restarts, event.ClientNotBack.Attr())
	}
	return c
}

func client(before, now systemd.Unit) runstate.Client {
	c := runstate.Client{
		Unit: before.Name, Before: before.Active, Now: now.Active, Sub: now.Sub,
		Result: now.Result, Restarts: now.Restarts,
		Invocation: now.Invocation, Back: !before.Up() || now.Active == "active" || ranAgain(before, now),
	}
	if before.Load == "not-found" {
		c.Before = before.Load
	}
	if now.Load == "not-found" {
		c.Now = now.Load
	}
	return c
}

// ranAgain reports whether a job (Type=oneshot), which is never active, has been started again
// and has ended with success or still runs.
func ranAgain(before, now systemd.Unit) bool {
	running := now.Oneshot && now.Active == "activating"
	return now.Invocation != before.Invocation && (now.Done() || running)
}

func notBack(clients []runstate.Client) *runstate.Error {
	var out []string
	for _, c := range clients {
		if !c.Back {
			out = append(out, fmt.Sprintf("%s was %s and is %s (%s)", c.Unit, c.Before, c.Now, c.Result))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return &runstate.Error{Text: "not back: " + strings.Join(out, ", "), Cure: "systemctl status of the unit tells why; once repaired, start it"}
}

// amended returns the clients with what is newer of some of them.
func amended(clients, newer []runstate.Client) []runstate.Client {
	for _, n := range newer {
		i := slices.IndexFunc(clients, func(c runstate.Client) bool { return c.Unit == n.Unit })
		if i < 0 {
			clients = append(clients, n)
		} else {
			clients[i] = n
		}
	}
	return clients
}
