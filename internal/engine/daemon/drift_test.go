package daemon

import (
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/testkit/testdeadline"
)

const bounce = "reset:a.service restart:dcm-apply.service"

// sendDeviceEvent sends a device event, and returns when the loop has received it.
func (h *host) sendDeviceEvent() {
	h.t.Helper()
	select {
	case h.devices <- struct{}{}:
	case <-testdeadline.After(10 * time.Second):
		h.t.Fatal("the loop does not receive device events")
	}
}

// sendDeviceEvents sends n device events, and waits for the reading of the GPUs that each causes.
// All but the last pass have ended then.
func (h *host) sendDeviceEvents(n int) {
	h.t.Helper()
	for range n {
		before := h.looks.Load()
		h.sendDeviceEvent()
		for deadline := time.Now().Add(10 * time.Second); h.looks.Load() == before; h.tick() {
			if time.Now().After(deadline) {
				h.t.Fatal("the GPUs were not read")
			}
		}
	}
}

// inSync starts a daemon whose GPUs are as selected.
func inSync(t *testing.T) *host {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	return h
}

func TestDrift_RepairedByOneRestart(t *testing.T) {
	h := inSync(t)
	h.set(func() { h.steps = 8 })
	h.sendDeviceEvent()
	h.until("applying", phase(runstate.Applying))
	h.until("in sync", phase(runstate.InSync))
	h.sendDeviceEvent() // from the run's own changes
	h.tick()
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

func TestDrift_OnlyReported(t *testing.T) {
	h := newHost(t)
	h.settings.LeaveDrift = true
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() { h.steps = 8 })
	h.sendDeviceEvent()
	s := h.until("drifted", phase(runstate.Drifted))
	if s.Error == nil || s.Error.Text != "another program has changed the GPUs; the GPUs do not match profile cpx (found 8 steps to do, want none)" {
		t.Errorf("error %v", s.Error)
	}
	h.set(func() { h.stepsErr = errPassing; h.turns++ }) // the driver is unloaded, which causes no run
	h.sendDeviceEvent()
	h.until("the driver's absence", func(s runstate.State) bool { return s.Phase == runstate.Drifted && s.Error.Text == errPassing.Error() })
	h.tick()
	if got := h.did(); got != "" {
		t.Errorf("events %q, want none", got)
	}
	h.set(func() { h.stepsErr = nil; h.steps = 0; h.turns++ })
	h.sendDeviceEvent()
	h.until("in sync once it is undone", phase(runstate.InSync))
	h.set(func() { h.steps = 8 })
	h.sendDeviceEvent()
	h.until("drifted", phase(runstate.Drifted))
	h.set(func() { h.settings.Profile.Name = "other" })
	h.changed <- struct{}{} // an administrator selects another profile
	h.until("in sync after an edit", phase(runstate.InSync))
	h.tick()
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

// A run that fails causes device events. They must not cause another pass.
func TestDrift_NotAfterFailedRun(t *testing.T) {
	for name, transient := range map[string]bool{"permanent": false, "transient": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.retry = Backoff{First: time.Hour, Most: time.Hour}
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.set(func() {
				h.steps = 3
				h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
					h.steps, h.turns = 5, h.turns+1 // it kept some, and undid others
					return failing(runstate.Error{Text: "no", Transient: transient})(h)
				}
			})
			h.changed <- struct{}{}
			s := h.until("failed", func(s runstate.State) bool { return s.Phase == runstate.Stuck || s.Phase == runstate.Waiting })
			h.tick()
			h.did()
			h.sendDeviceEvents(3)
			if got := h.did(); got != "" {
				t.Errorf("events %q after nothing new had happened, want none", got)
			}
			h.set(func() { h.run = succeed; h.turns++ }) // another change
			h.sendDeviceEvent()
			if got := h.until("in sync", phase(runstate.InSync)); got.Since.Before(s.Since) {
				t.Error("the daemon published an older state")
			}
			h.tick()
			if got := h.did(); got != bounce {
				t.Errorf("events %q, want %q: one restart, and only after another change of the GPUs", got, bounce)
			}
		})
	}
}

// If drift is only reported, a failure stays a failure.
func TestDrift_NotAfterFailure(t *testing.T) {
	h := newHost(t)
	h.settings.LeaveDrift = true
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.steps, h.run = 3, failing(runstate.Error{Text: "no"}) })
	h.changed <- struct{}{}
	h.until("failed", phase(runstate.Stuck))
	looks := h.looks.Load()
	for range 3 {
		h.set(func() { h.turns++ })
		h.sendDeviceEvent()
		h.tick()
	}
	h.hangup <- nil
	h.until("the requested pass", phase(runstate.Applying))
	// The GPUs are read once before the run, and at most once after it.
	if got := h.looks.Load() - looks; got > 2 {
		t.Errorf("the GPUs were read %d times after a failure, want at most twice", got)
	}
}

func TestRetry_NotDelayedByDeviceEvents(t *testing.T) {
	h := newHost(t)
	h.retry = Backoff{First: 300 * time.Millisecond, Most: 300 * time.Millisecond}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.stepsErr = errPassing })
	h.changed <- struct{}{}
	h.until("waiting", phase(runstate.Waiting))
	h.set(func() { h.stepsErr = nil })
	h.sendDeviceEvent()
	h.sendDeviceEvent()
	h.until("in sync by the retry", phase(runstate.InSync))
}

func TestDrift_RepeatedRepairsAreDelayed(t *testing.T) {
	h := newHost(t)
	const firstDelay = time.Hour
	h.retry = Backoff{First: firstDelay, Most: 100 * firstDelay}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	for i := range 4 {
		h.set(func() { h.steps = 8 })
		before := time.Now()
		h.sendDeviceEvent()
		if i > 0 {
			s := h.until("waiting", phase(runstate.Waiting))
			if wait, least := s.Retry.Sub(before), firstDelay<<(i-1)/2; wait < least {
				t.Errorf("repair %d is made after %s, want at least %s", i+1, wait, least)
			}
			h.hangup <- nil // an administrator does not wait for it
		}
		h.until("repaired", phase(runstate.Applying))
		h.until("in sync", phase(runstate.InSync))
	}
}

func TestDeviceEvents_DuringRun(t *testing.T) {
	h := inSync(t)
	running, release := make(chan struct{}), make(chan struct{})
	h.set(func() {
		h.steps = 3
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			h.mu.Unlock()
			close(running)
			<-release
			h.mu.Lock()
			return succeed(h)
		}
	})
	h.changed <- struct{}{}
	<-running
	h.sendDeviceEvent()
	h.sendDeviceEvent()
	close(release)
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

func TestDeviceEvent_WithoutChangeKeepsState(t *testing.T) {
	h := newHost(t)
	h.steps = 3
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "failed", Result: "exit-code"}
		return succeed(h)
	}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	for range 2 {
		h.sendDeviceEvent() // from the run's own changes, and then of something else
		if s := h.until("the look's verdict", phase(runstate.InSync)); s.Error == nil {
			t.Error("the state no longer reports the client that is not back")
		}
		h.set(func() { h.turns++ })
	}
}

func TestDeviceEvent_IgnoredWithoutProfile(t *testing.T) {
	h := newHost(t)
	h.settings.Selected = false
	h.start()
	h.until("idle", phase(runstate.Idle))
	h.set(func() { h.steps = 8 })
	h.sendDeviceEvent()
	h.tick()
	if got := h.did(); got != "READY" {
		t.Errorf("events %q, want none after READY", got)
	}
}

// A change without an event is found at the next watchdog tick.
func TestDrift_FoundAtWatchdogTick(t *testing.T) {
	h := inSync(t)
	looks := h.looks.Load()
	h.tick()
	if h.looks.Load() != looks {
		t.Error("the GPUs were read at each watchdog tick, want none without a change")
	}
	h.set(func() { h.steps, h.short = 8, "gpu0/mig/gi1" })
	h.tick()
	h.until("applying", phase(runstate.Applying))
	h.until("in sync", phase(runstate.InSync))
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

// A load of the driver creates the mode files again, so that watches of the old files report
// nothing.
func TestWatches_RenewedAfterEachRun(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.set(func() { h.looked, h.steps = 0, 3 })
	h.changed <- struct{}{}
	h.until("applying", phase(runstate.Applying))
	h.until("in sync", phase(runstate.InSync))
	h.set(func() {
		if h.looked != 1 {
			t.Errorf("the watches were renewed %d times, want once", h.looked)
		}
	})
}
