package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// keepingDown is a run that fails and leaves the client inactive, as with require = true. The next
// run succeeds.
func keepingDown(h *host) (systemd.Unit, *runstate.Run, error) {
	a := h.units["a.service"]
	a.Active = "inactive"
	h.units["a.service"] = a
	h.run = succeed
	return failing(runstate.Error{Text: "busy", Transient: true})(h)
}

func TestPending_StartedAfterSuccess(t *testing.T) {
	h := newHost(t)
	h.settings.Require = true
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.steps, h.run = 8, keepingDown })
	h.changed <- struct{}{}
	for _, p := range []runstate.Phase{runstate.Applying, runstate.Waiting, runstate.Applying} {
		s := h.until(string(p), phase(p))
		if diff := cmp.Diff([]string{"a.service"}, s.Pending.Units()); diff != "" {
			t.Errorf("pending starts in phase %s (-want +got):\n%s", p, diff)
		}
	}
	if s := h.until("in sync", phase(runstate.InSync)); len(s.Pending) > 0 {
		t.Errorf("pending starts %q in phase in-sync, want none", s.Pending.Units())
	}
	h.tick()
	h.set(func() {
		if diff := cmp.Diff([]string{"a.service", "a.service", ""}, h.held); diff != "" {
			t.Errorf("units that PID 1 keeps loaded (-want +got):\n%s", diff)
		}
	})
	want := "READY reset:a.service restart:dcm-apply.service restart:dcm-apply.service reset:a.service start:a.service"
	if got := h.did(); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestPending_NotStartedIfSystemdDoes(t *testing.T) {
	for name, given := range map[string]func(*host){
		"systemd starts it, as the profile is not required": func(h *host) { h.run = keepingDown },
		"systemd starts it, as the run succeeds":            func(h *host) { h.settings.Require = true },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.steps = 0
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.set(func() { h.steps = 8; given(h) })
			h.changed <- struct{}{}
			h.until("applying", phase(runstate.Applying))
			h.until("in sync", phase(runstate.InSync))
			h.tick()
			if got := h.did(); strings.Contains(got, " start:") {
				t.Errorf("events %q, want no start of a client", got)
			}
		})
	}
}

// A run was killed while the driver was unloaded. One client, which systemd started again, has
// failed; another one was not started and is inactive.
func TestPending_OfEarlierDaemon(t *testing.T) {
	for _, test := range []struct {
		name  string
		given func(*host)
		want  string
	}{
		{"once the GPUs are as selected", func(h *host) { h.settings.Require = true }, "reset:a.service reset:c.service start:a.service start:c.service READY"},
		{"once no profile is selected", func(h *host) { h.settings.Require, h.settings.Selected = true, false }, "reset:a.service reset:c.service start:a.service start:c.service READY"},
		{"unless an administrator has stopped it", func(h *host) {}, "reset:a.service start:a.service READY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.initial.Pending = runstate.PendingStarts{{Unit: "a.service", Reason: runstate.StoppedByRun}, {Unit: "c.service", Reason: runstate.StoppedByRun}}
			h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "failed", Result: "exit-code"}
			h.units["c.service"] = systemd.Unit{Name: "c.service", Load: "loaded", Active: "inactive"}
			test.given(h)
			h.start()
			h.until("a verdict", func(s runstate.State) bool { return s.Phase == runstate.InSync || s.Phase == runstate.Idle })
			h.tick()
			if got := h.did(); got != test.want {
				t.Errorf("events %q, want %q", got, test.want)
			}
		})
	}
}

// Dependents of clients that a failed run stopped are reported and started too.
func TestPending_DependentsOfClients(t *testing.T) {
	h := newHost(t)
	h.depend = []string{"c.service", "d.service"}
	for _, name := range append(h.depend, "a.service") {
		h.units[name] = systemd.Unit{Name: name, Load: "loaded", Active: "active", Result: "success", Invocation: "old"}
	}
	h.ends = map[string]systemd.End{"a.service": {Skipped: true}, "c.service": {Needs: []string{"a.service"}}}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		for name, u := range h.units {
			if u.Invocation == "old" {
				u.Active = "inactive"
				h.units[name] = u
			}
		}
		h.run = succeed
		return failing(runstate.Error{Text: "killed", Transient: true})(h)
	}
	h.set(func() { h.steps = 8 })
	h.changed <- struct{}{}
	s := h.until("waiting", phase(runstate.Waiting))
	if diff := cmp.Diff([]string{"a.service", "c.service", "d.service"}, s.Pending.Units()); diff != "" {
		t.Errorf("pending starts (-want +got):\n%s", diff)
	}
	s = h.until("in sync", phase(runstate.InSync))
	if s.Error == nil || s.Error.Text != "not back: a.service was active and is inactive (success), c.service was active and is inactive (success)" {
		t.Errorf("error is %v, want the units that are not back", s.Error)
	}
	h.tick()
	if got, want := h.did(), "reset:a.service reset:c.service start:a.service start:c.service"; !strings.HasSuffix(got, want) {
		t.Errorf("events %q, want them to end with %q: d was stopped by an administrator", got, want)
	}
}

// systemd marks the unit failed and does not start the clients that require it, although the
// profile is on the GPUs.
func TestRun_SucceedsAfterTimeout(t *testing.T) {
	h := newHost(t)
	h.settings.Require, h.steps = true, 3
	h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "active", Result: "success", Invocation: "a"}
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "inactive", Result: "success", Invocation: "a"}
		_, run, err := succeed(h)
		u := systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: "failed", Result: "timeout", Invocation: run.ID}
		h.units[unitname.Apply] = u
		return u, run, err
	}
	h.start()
	var texts []string
	s := h.until("in sync", func(s runstate.State) bool {
		if s.Error != nil {
			texts = append(texts, s.Error.Text)
		}
		return s.Phase == runstate.InSync
	})
	h.tick()
	want := "reset:a.service restart:dcm-apply.service reset:a.service start:a.service reset:dcm-apply.service READY"
	if got := h.did(); got != want || len(s.Pending) > 0 {
		t.Errorf("events %q, want %q; pending starts %q", got, want, s.Pending.Units())
	}
	// The simulated host starts no unit, so a.service is reported as not back.
	if want := "not back: a.service was active and is inactive (success)"; len(texts) != 1 || texts[0] != want {
		t.Errorf("errors are %q, want %q", texts, want)
	}
}

// If a run is killed after its last switch but before it publishes the partitions, the GPUs match
// the profile, but units with reservations have partitions that no longer exist. The daemon repeats
// the run.
func TestRun_RepeatedIfKilledBeforePublishing(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() {
		h.steps = 8
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			h.steps, h.unpublished = 0, true
			h.run = func(h *host) (systemd.Unit, *runstate.Run, error) { h.unpublished = false; return succeed(h) }
			return systemd.Unit{Name: unitname.Apply, Active: "failed", Result: "signal", Invocation: "1"}, &runstate.Run{ID: "1", Profile: "cpx", Result: runstate.Applied}, nil
		}
	})
	h.changed <- struct{}{}
	h.until("waiting", phase(runstate.Waiting))
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	if got, want := h.did(), "reset:a.service restart:dcm-apply.service reset:a.service restart:dcm-apply.service"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	// No run was killed. A list of partitions that does not match the GPUs is then no reason to
	// restart clients.
	h.set(func() { h.unpublished, h.settings.Rest = true, "edited" })
	h.changed <- struct{}{}
	h.tick()
	h.tick()
	if got := h.did(); got != "" {
		t.Errorf("events %q, want none", got)
	}
}

// A unit that is bound to a client stops when the client ends without the driver. Its stop is recorded
// after the run, since PID 1 does not know it any more when the client runs again.
func TestPending_Mark(t *testing.T) {
	ended := systemd.End{Began: 10, Left: 20, Exited: 20}
	for _, tt := range []struct {
		name  string
		bound down
		want  runstate.PendingReason
	}{
		{"ended with the client", down{systemd.Unit{ID: "bound.service", Active: "inactive", Invocation: "2"}, systemd.End{Began: 11, Left: 21, Exited: 22, Bound: []string{"a.service"}}}, runstate.LeftDown},
		{"stopped before the client ended", down{systemd.Unit{ID: "bound.service", Active: "inactive", Invocation: "2"}, systemd.End{Began: 11, Left: 15, Exited: 16, Bound: []string{"a.service"}}}, runstate.StoppedByRun},
	} {
		p := stoppedBy("a.service", "1", "bound.service", "1")
		tt.bound.Name = tt.bound.ID
		client := systemd.Unit{Name: "a.service", ID: "a.service", Active: "activating", Sub: "auto-restart", Invocation: "3"}
		p.mark([]down{{client, ended}, tt.bound}, false)
		if got := p["bound.service"]; got.Reason != tt.want || p["a.service"].Reason != runstate.StoppedByRun {
			t.Errorf("%s: pending starts %+v, want reason %q", tt.name, p, tt.want)
		}
		client.Active, client.Sub = "active", "running"
		missing := p.missing([]down{tt.bound}, false)
		if marked := p["bound.service"].Reason == runstate.LeftDown; marked != (len(missing) == 1) {
			t.Errorf("%s: missing when the client runs again: %q", tt.name, missing)
		}
	}
}

// Before a run, the daemon judges the units that are down with the client that runs again.
func TestPending_Judge(t *testing.T) {
	const kept, started, released = "kept", "left down", "released"
	client := down{systemd.Unit{ID: "a.service", Active: "active", Sub: "running", Invocation: "3"}, systemd.End{Began: 30, Left: 20}}
	for _, tt := range []struct {
		name  string
		bound down
		want  string
	}{
		{"stopped before the client was restarted", down{systemd.Unit{Active: "inactive", Invocation: "2"}, systemd.End{Began: 11, Left: 21, Exited: 22, Bound: []string{"a.service"}}}, started},
		{"stopped while the client ran", down{systemd.Unit{Active: "inactive", Invocation: "2"}, systemd.End{Began: 31, Left: 40, Exited: 41, Bound: []string{"a.service"}}}, released},
		{"stopped, and not bound to the client", down{systemd.Unit{Active: "inactive", Invocation: "2"}, systemd.End{Began: 11, Left: 21, Exited: 22}}, released},
		{"not started since the run", down{systemd.Unit{Active: "inactive", Invocation: "1"}, systemd.End{Began: 1, Left: 10}}, kept},
		{"PID 1 has unloaded it", down{systemd.Unit{Active: "inactive"}, systemd.End{}}, kept},
		{"it waits for its automatic restart", down{systemd.Unit{Active: "activating", Sub: "auto-restart", Invocation: "2"}, systemd.End{Began: 11, Left: 21}}, kept},
		{"it runs", down{systemd.Unit{Active: "active", Invocation: "2"}, systemd.End{Began: 11, Left: 10}}, kept},
		{"it is being stopped", down{systemd.Unit{Active: "deactivating", Invocation: "2"}, systemd.End{Began: 11, Left: 21}}, kept},
	} {
		p := stoppedBy("a.service", "1", "bound.service", "1")
		tt.bound.Name, tt.bound.ID = "bound.service", "bound.service"
		units := []down{client, tt.bound}
		p.mark(units, false)
		p.release(units, false)
		got := released
		if start, found := p["bound.service"]; found {
			got = map[runstate.PendingReason]string{runstate.StoppedByRun: kept, runstate.LeftDown: started}[start.Reason]
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if _, found := p["a.service"]; !found {
			t.Errorf("%s: the client that runs is released", tt.name)
		}
	}
}

// PID 1 is still starting one unit, and another one restarts for ever. The others are started without a wait.
func TestPending_StartedByThemselves(t *testing.T) {
	h := newHost(t)
	stoppedBy("a.service", "1", "c.service", "1", "slow.service", "1").into(&h.initial)
	h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "failed", Result: "exit-code", Invocation: "2"}
	h.units["c.service"] = systemd.Unit{Name: "c.service", Load: "loaded", Active: "activating", Sub: "auto-restart", Result: "exit-code", Invocation: "3"}
	h.units["slow.service"] = systemd.Unit{Name: "slow.service", Load: "loaded", Active: "activating", Sub: "start", Result: "success", Invocation: "2", Job: true}
	h.start()
	s := h.until("in sync", phase(runstate.InSync))
	if diff := cmp.Diff(runstate.PendingStarts{{Unit: "slow.service", Invocation: "1", Reason: runstate.StoppedByRun, WaitsFor: "slow.service"}}, s.Pending); diff != "" {
		t.Errorf("pending starts (-want +got):\n%s", diff)
	}
	if got, want := h.did(), "reset:a.service start:a.service"; !strings.HasPrefix(got, want) {
		t.Errorf("events %q, want %q first", got, want)
	}
	h.set(func() {
		h.units["slow.service"] = systemd.Unit{Name: "slow.service", Load: "loaded", Active: "failed", Result: "exit-code", Invocation: "2"}
	})
	go func() { // the daemon may begin to wait only after the change of the unit
		select {
		case h.unitEvent <- struct{}{}:
		case <-t.Context().Done():
		}
	}()
	h.until("in sync", func(s runstate.State) bool { return s.Phase == runstate.InSync && len(s.Pending) == 0 })
	h.tick()
	if got, want := h.did(), "start:slow.service"; !strings.Contains(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// stoppedBy returns pending starts of units that a run has stopped: pairs of a unit and its invocation.
func stoppedBy(pairs ...string) pendingStarts {
	out := make(pendingStarts)
	for pair := range slices.Chunk(pairs, 2) {
		out[pair[0]] = runstate.PendingStart{Unit: pair[0], Invocation: pair[1], Reason: runstate.StoppedByRun}
	}
	return out
}

// Refusals that stopped no unit do not delay the attempt after a run that failed.
func TestAttempts_CountedByCause(t *testing.T) {
	l := &loop{Daemon: &Daemon{Limits: Limits{Retry: Backoff{First: time.Second, Most: time.Minute, Random: func(int64) int64 { return 0 }}}}, attempts: make(attempts), waker: newWaker(nil, nil)}
	failure := &runstate.Error{Text: "busy", Transient: true}
	for _, tt := range []struct {
		r    result
		want time.Duration
	}{
		{result{}, time.Second}, {result{}, 2 * time.Second}, {result{}, 4 * time.Second},
		{result{clients: []runstate.Client{}}, time.Second}, {result{}, 8 * time.Second}, {result{clients: []runstate.Client{}}, 2 * time.Second},
	} {
		l.retry(t.Context(), tt.r, failure)
		if got := time.Until(l.state.Retry).Round(time.Second); got != tt.want {
			t.Errorf("after a failure with clients %v: next attempt in %s, want %s", tt.r.clients, got, tt.want)
		}
	}
}
