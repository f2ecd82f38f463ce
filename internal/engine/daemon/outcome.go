package daemon

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// succeededLate reports whether a run exceeded its TimeoutStartSec= but succeeded before systemd
// killed it. Then the unit is failed, although the GPUs match the profile.
func succeededLate(u systemd.Unit, run *runstate.Run) bool {
	return u.Result == "timeout" && u.Failed.Path == "" && run.ID != "" && run.ID == u.Invocation && run.Result.OK()
}

// whyFailed returns the error of the run's report, or what systemd knows if there is none.
func whyFailed(unit string, u systemd.Unit, run *runstate.Run) *runstate.Error {
	if run.Error != nil {
		return run.Error
	}
	text := fmt.Sprintf("%s ended with result %q before it wrote a reason", unit, u.Result)
	if u.Failed.Path != "" {
		text = fmt.Sprintf("%s failed: %s", unit, u.Failed)
	}
	if u.Result == "timeout" {
		text = unit + " took longer than its TimeoutStartSec= and was stopped"
		if u.Failed.Path != "" {
			text += fmt.Sprintf(": %s", u.Failed)
		}
	}
	var open []string
	for _, s := range run.Steps {
		if !s.Started.IsZero() && s.Finished.IsZero() {
			open = append(open, s.Step.String())
		}
	}
	if len(open) > 0 {
		text += "; in progress: " + strings.Join(open, ", ")
	}
	return &runstate.Error{Text: text, Hint: "see journalctl -u " + unit, Transient: true}
}

// failureEvent returns the event of a failed run: its own, or Refused if a command before it
// failed.
func failureEvent(u systemd.Unit, run *runstate.Run) event.ID {
	if run.Result == "" && u.Failed.Before() {
		return event.Refused
	}
	return run.FailureEvent()
}

// whyEnded describes how one of dcm's units failed, as systemd reports it.
func whyEnded(u systemd.Unit) string {
	switch {
	case u.Result == "timeout":
		return "it took longer than its TimeoutStartSec= and was stopped"
	case u.Failed.Path != "":
		return u.Failed.String()
	case u.Result == "" || u.Result == "success":
		return "it is " + u.Active
	}
	return fmt.Sprintf("result %q", u.Result)
}

// with returns the union of units and others, by name.
func with(units, others []systemd.Unit) []systemd.Unit {
	out := slices.Clone(units)
	for _, o := range others {
		if !slices.ContainsFunc(out, func(u systemd.Unit) bool { return u.ID == o.ID }) {
			out = append(out, o)
		}
	}
	return out
}

func ids(units []systemd.Unit) []string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = u.ID
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

// compare compares a unit with its state before a restart.
func compare(before, now systemd.Unit) runstate.Client {
	c := runstate.Client{
		Unit: before.Name, Before: before.Active, Now: now.Active, Sub: now.Sub,
		Result: now.Result, Restarts: now.Restarts,
		Invocation: now.Invocation, Back: !before.Up() || now.Active == "active" || ranAgain(before, now) || before.Active == "activating" && now.Up(),
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
	return &runstate.Error{Text: "not back: " + strings.Join(out, ", "), Hint: "systemctl status of the unit shows the reason; repair it and start it"}
}

// updated returns the clients, with the newer states of some of them.
func updated(clients, newer []runstate.Client) []runstate.Client {
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
