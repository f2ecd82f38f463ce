package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// hidden reports whether a part could not be read.
func (a Account) hidden(part string) bool {
	return slices.ContainsFunc(a.Hidden, func(h Unavailable) bool { return h.Part == part })
}

// unit returns one of dcm's own units.
func (a Account) unit(name string) (Unit, bool) {
	i := slices.IndexFunc(a.Units, func(u Unit) bool { return u.Unit == name })
	if i < 0 {
		return Unit{}, false
	}
	return a.Units[i], true
}

// FailedUnits returns dcm's own units that have failed, without those whose results are in the report of a run
// or in the state of the daemon.
func (a Account) FailedUnits() []Unit {
	var out []Unit
	for _, u := range a.Units {
		if u.Active == "failed" && !slices.Contains([]string{unitname.Daemon, unitname.Apply, unitname.Change}, u.Unit) {
			out = append(out, u)
		}
	}
	return out
}

// Running reports whether a run is in progress. The saved state of a killed daemon may still
// say so.
func (a Account) Running() bool {
	for _, run := range unitname.Runs() {
		if u, ok := a.unit(run); ok && u.Active == "activating" {
			return true
		}
	}
	return a.Daemon.Phase == runstate.Applying && !a.daemonDown()
}

// HeldPerGPU returns how many partitions of each GPU have a holder.
func (a Account) HeldPerGPU() map[string]int {
	out := make(map[string]int)
	for _, p := range a.Parts {
		if len(p.Holders) > 0 {
			out[p.GPU]++
		}
	}
	return out
}

// rolling reports whether the daemon waits for the next round of a change.
func (a Account) rolling() bool { return a.Daemon.Phase == runstate.Rolling && !a.daemonDown() }

// progress describes how far a change is that is made in rounds.
func (a Account) progress() string {
	if a.Daemon.Progress == nil || a.daemonDown() {
		return ""
	}
	return fmt.Sprintf(" (%s)", a.Daemon.Progress)
}

// nextRound returns when the next round of a change begins.
func (a Account) nextRound() string {
	if a.Daemon.Retry.IsZero() {
		return ""
	}
	return ", next round at " + a.Daemon.Retry.Local().Format(time.TimeOnly)
}

// daemonDown reports whether dcm.service does not run, so that its saved state is outdated.
func (a Account) daemonDown() bool {
	u, ok := a.unit(unitname.Daemon)
	return ok && (u.Active == "inactive" || u.Active == "failed")
}

// Unread reports whether dcm.service is starting and has not read the GPUs.
func (a Account) Unread() bool { return starting(a) && len(a.GPUs) == 0 }

// starting reports whether dcm.service is starting, and no run is in progress. It has then perhaps not read the
// GPUs.
func starting(a Account) bool {
	u, ok := a.unit(unitname.Daemon)
	return !a.Running() && (ok && u.Active == "activating" || a.Daemon.Phase == runstate.Starting && !a.daemonDown())
}

// matches reports whether the GPUs match the effective profile. If the configuration has errors, only
// the daemon knows that profile, and its state decides.
func (a Account) matches() bool {
	managed, wanted := 0, 0
	for _, g := range a.GPUs {
		if !g.Managed() {
			continue
		}
		managed++
		if !g.Want.empty() {
			wanted++
		}
		if !g.AsWanted() {
			return false
		}
	}
	if wanted == 0 && a.Profile.Broken != "" {
		return a.Daemon.Phase == runstate.InSync
	}
	return managed > 0 && wanted == managed
}

// Managed returns the number of GPUs that dcm manages.
func (a Account) Managed() int {
	n := 0
	for _, g := range a.GPUs {
		if g.Managed() {
			n++
		}
	}
	return n
}

// down reports whether a client is not in its previous state, or has failed.
func (c Client) down() bool { return !c.Back || c.Active == "failed" }

// stoppedWithApply reports whether a client was stopped because dcm-apply.service was stopped, of
// which it is a part. PID 1 may have forgotten that an inactive client ran; then the record of the
// last restart decides.
func (a Account) stoppedWithApply(c Client) bool {
	u, known := a.unit(unitname.Apply)
	ran := c.Ran || c.Before == "active"
	return known && u.Ran && u.Active == "inactive" && c.Load == "loaded" && c.Active == "inactive" && ran
}

// DownClients returns the clients that are not in their expected state, with their states.
func (a Account) DownClients() map[string]string {
	out := make(map[string]string)
	for _, c := range a.Clients {
		if c.down() || a.stoppedWithApply(c) {
			out[c.Unit] = c.Active
		}
	}
	return out
}

// Leftovers returns the partitions that a lease has made that has ended. They are not destroyed yet.
func Leftovers(a Account) []Part {
	if a.hidden(partLeases) || a.hidden(partHolders) {
		return nil
	}
	var out []Part
	for _, p := range a.Parts {
		ended := func(holder string) bool {
			_, ok := unitname.ParseLease(holder)
			return ok && !slices.ContainsFunc(a.Leases, func(l Lease) bool { return l.Lease == holder })
		}
		if slices.ContainsFunc(p.Holders, ended) {
			out = append(out, p)
		}
	}
	return out
}

// ConfinementKnown reports whether the confinement of units could be read from systemd.
func (a Account) ConfinementKnown() bool { return !a.hidden(partConfined) }

// Line returns the summary and the first problem in one line.
func (a Account) Line() string {
	s := a.Health.Summary
	for i, p := range a.Problems {
		if i == 0 {
			s += ": " + strings.ReplaceAll(strings.TrimSpace(p.Text), "\n", "; ")
			continue
		}
		s += fmt.Sprintf(" (and %d more)", len(a.Problems)-1)
		break
	}
	return s
}

// Unfit returns a text for each client that systemd cannot restart, with the reason.
func (a Account) Unfit() []string {
	var out []string
	for _, c := range a.Clients {
		if why := c.unfit(); why != "" {
			out = append(out, fmt.Sprintf("%s is a client, %s", c.Unit, why))
		}
	}
	return out
}

// Runs reports whether the client is active, starting or stopping.
func (c Client) Runs() bool { return c.Active != "inactive" && c.Active != "failed" }

func (c Client) unfit() string {
	switch {
	case c.Load == "loaded" || c.Load == "":
		return ""
	case c.Load == "not-found" && !c.Runs():
		return "but not installed"
	case c.Load == "not-found":
		return "and its unit file is gone: systemd cannot restart it"
	case c.Load == "masked":
		return "and masked: systemd cannot restart it"
	}
	return "and its unit file cannot be used (" + c.Load + ")"
}

// Loose returns the processes that have a common device node open, such as /dev/kfd, but no node of a
// partition.
func (a Account) Loose() []Holder {
	var out []Holder
	for _, h := range a.Holders {
		has := slices.ContainsFunc(a.Parts, func(p Part) bool {
			return slices.Contains(h.Devices, p.RenderNode) || slices.Contains(h.Devices, p.Card)
		})
		if !has && len(h.Devices) > 0 && len(a.Parts) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// Lost returns the text of the problem that GPUs are missing, or "".
func (a Account) Lost() string {
	for _, p := range a.Problems {
		if p.State == Missing {
			return p.Text
		}
	}
	return ""
}
