package status

import (
	"slices"

	"dcm/internal/engine/runstate"
)

// addUnits combines the clients' current states with the results of the last restart. asked is false
// if systemd was not queried.
func addUnits(a *Account, asked bool, s UnitStates) {
	a.Units = s.Own
	if !asked || a.hidden(partUnits) {
		a.Hidden = append(a.Hidden, Unavailable{partClients, "systemd was not queried: these are the states after the last restart"})
		markRestarting(a)
		return
	}
	before := make(map[string]Client, len(a.Clients))
	for _, c := range a.Clients {
		before[c.Unit] = c
	}
	a.Clients = nil
	for _, c := range s.Clients {
		was, known := before[c.Unit]
		c.Before = was.Before
		c.Back = !known || was.Back || c.Active == "active" || slices.Contains(s.Done, c.Unit) && c.Invocation != was.Invocation
		c.Ended = was.Back && was.Active == "active" && (c.Active == "inactive" || c.Active == "failed")
		if a.restarts(c.Unit) {
			c.Ended = false
			c.Before, c.Back = "active", c.Active == "active"
		}
		addGPUs(&c, s.Had)
		a.Clients = append(a.Clients, c)
	}
}

// addGPUs adds the GPUs that a client had open before its restart, unless it has one open again.
func addGPUs(c *Client, had []runstate.GPUClient) {
	i := slices.IndexFunc(had, func(g runstate.GPUClient) bool { return g.Unit == c.Unit })
	if i < 0 || had[i].State == runstate.GPUOpen || c.Active != "active" {
		return
	}
	c.GPU, c.GPUs = had[i].State, had[i].Names()
}

// restarts reports whether the current run stops a unit and starts it again at its end.
func (a *Account) restarts(unit string) bool {
	return a.Running() && slices.ContainsFunc(a.Daemon.Pending, func(p PendingStart) bool { return p.Unit == unit })
}

// restarting replaces systemd's state for units that the current run stops, if systemd is not
// queried.
const restarting = "restarting"

// markRestarting corrects the clients that the current run stops: the result of the last restart is
// outdated.
func markRestarting(a *Account) {
	if !a.Running() {
		return
	}
	for _, p := range a.Daemon.Pending {
		i := slices.IndexFunc(a.Clients, func(c Client) bool { return c.Unit == p.Unit })
		if i < 0 {
			i = len(a.Clients)
			a.Clients = append(a.Clients, Client{Unit: p.Unit, Load: "loaded", Ran: true})
		}
		c := &a.Clients[i]
		c.Active, c.Sub, c.Result, c.Before, c.Back = restarting, "", "", "active", false
	}
}

// addHolders replaces the holders that blocked the last run by all current ones, and marks those that
// blocked it. asked is false if the holders were not read.
func addHolders(a *Account, asked bool, now []runstate.Holder) {
	if !asked || len(now) == 0 && a.hidden(partHolders) {
		return
	}
	blockers := a.Holders
	a.Holders = nil
	for _, h := range now {
		blocked := slices.ContainsFunc(blockers, func(b Holder) bool { return b.PID == h.PID })
		a.Holders = append(a.Holders, holder(h, blocked))
	}
}

func holder(h runstate.Holder, blocked bool) Holder {
	out := Holder{PID: h.PID, Command: h.Command, Unit: h.Unit, Devices: h.Devices, InWay: blocked, Lessee: h.Lessee, Leased: h.Leased}
	for _, a := range h.Attached {
		out.Attached = append(out.Attached, string(a))
	}
	return out
}
