package daemon

import (
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/testkit/testdeadline"
)

const bounce = "reset:a.service restart:dcm-apply.service"

// tell has the devices tell of something, and the loop take it.
func (h *host) tell() {
	h.t.Helper()
	select {
	case h.devices <- struct{}{}:
	case <-testdeadline.After(10 * time.Second):
		h.t.Fatal("the loop does not listen to devices")
	}
}

// stirs has the devices tell of something n times, and each lead to a look. All
// but the last of these are over then.
func (h *host) stirs(n int) {
	h.t.Helper()
	for range n {
		before := h.looks.Load()
		h.tell()
		for deadline := time.Now().Add(10 * time.Second); h.looks.Load() == before; h.tick() {
			if time.Now().After(deadline) {
				h.t.Fatal("no look")
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

func TestADriftIsRepairedByOneRestart(t *testing.T) {
	h := inSync(t)
	h.set(func() { h.steps = 8 })
	h.tell()
	h.until("applying", phase(runstate.Applying))
	h.until("in sync", phase(runstate.InSync))
	h.tell() // of what the run has done
	h.tick()
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

func TestADriftIsOnlyToldIfSettingsSaySo(t *testing.T) {
	h := newHost(t)
	h.settings.LeaveDrift = true
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() { h.steps = 8 })
	h.tell()
	s := h.until("drifted", phase(runstate.Drifted))
	if s.Error == nil || s.Error.Text != "the GPUs do not match profile cpx: another program has changed them (found 8 steps to do, want 0)" {
		t.Errorf("error %v", s.Error)
	}
	h.set(func() { h.stepsErr = errPassing; h.turns++ }) // the driver goes, which is no reason to try
	h.tell()
	h.until("the driver's absence", func(s runstate.State) bool { return s.Phase == runstate.Drifted && s.Error.Text == errPassing.Error() })
	h.tick()
	if got := h.did(); got != "" {
		t.Errorf("events %q, want none", got)
	}
	h.set(func() { h.stepsErr = nil; h.steps = 0; h.turns++ })
	h.tell()
	h.until("in sync once it is undone", phase(runstate.InSync))
	h.set(func() { h.steps = 8 })
	h.tell()
	h.until("drifted", phase(runstate.Drifted))
	h.set(func() { h.settings.Profile.Name = "other" })
	h.changed <- struct{}{} // an administrator's wish
	h.until("in sync after an edit", phase(runstate.InSync))
	h.tick()
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

// A run that fails makes devices tell of it. Nothing must follow from that.
func TestWhatAFailedRunDidIsNoDrift(t *testing.T) {
	for name, transient := range map[string]bool{"for good": false, "for now": true} {
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
			h.stirs(3)
			if got := h.did(); got != "" {
				t.Errorf("events %q after nothing new had happened, want none", got)
			}
			h.set(func() { h.run = succeed; h.turns++ }) // now something else happens
			h.tell()
			if got := h.until("in sync", phase(runstate.InSync)); got.Since.Before(s.Since) {
				t.Error("the state went back in time")
			}
			h.tick()
			if got := h.did(); got != bounce {
				t.Errorf("events %q, want %q: one restart, and only after something had happened", got, bounce)
			}
		})
	}
}

// Where a drift is only told of, a failure stays what it is.
func TestAFailureIsNoDrift(t *testing.T) {
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
		h.tell()
		h.tick()
	}
	h.hangup <- nil
	h.until("the look that was asked for", phase(runstate.Applying))
	// One before the run, and at most one after it.
	if got := h.looks.Load() - looks; got > 2 {
		t.Errorf("%d looks after a failure, want none but those asked for", got)
	}
}

func TestARetryIsNotPutOffByDevices(t *testing.T) {
	h := newHost(t)
	h.retry = Backoff{First: 300 * time.Millisecond, Most: 300 * time.Millisecond}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.stepsErr = errPassing })
	h.changed <- struct{}{}
	h.until("waiting", phase(runstate.Waiting))
	h.set(func() { h.stepsErr = nil })
	h.tell()
	h.tell()
	h.until("in sync by the retry", phase(runstate.InSync))
}

func TestRepairsInARowAreSpaced(t *testing.T) {
	h := newHost(t)
	h.retry = Backoff{First: time.Millisecond, Most: time.Hour}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	for i := range 4 {
		h.set(func() { h.steps = 8 })
		h.tell()
		if i > 0 {
			s := h.until("waiting", phase(runstate.Waiting))
			if wait, least := s.Retry.Sub(s.Since), time.Millisecond<<(i-1)/2; wait < least {
				t.Errorf("repair %d is made after %s, want at least %s", i+1, wait, least)
			}
		}
		h.until("repaired", phase(runstate.Applying))
		h.until("in sync", phase(runstate.InSync))
	}
}

func TestDevicesDuringARunMakeOneCheapLook(t *testing.T) {
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
	h.tell()
	h.tell()
	close(release)
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

func TestALookThatFindsNothingKeepsWhatIsKnown(t *testing.T) {
	h := newHost(t)
	h.steps = 3
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "failed", Result: "exit-code"}
		return succeed(h)
	}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	for range 2 {
		h.tell() // of what the run has done, and then of something else
		if s := h.until("the look's verdict", phase(runstate.InSync)); s.Error == nil {
			t.Error("the client that is not back is forgotten")
		}
		h.set(func() { h.turns++ })
	}
}

func TestDevicesOfAnIdleDaemonAreNoConcern(t *testing.T) {
	h := newHost(t)
	h.settings.Selected = false
	h.start()
	h.until("idle", phase(runstate.Idle))
	h.set(func() { h.steps = 8 })
	h.tell()
	h.tick()
	if got := h.did(); got != "READY" {
		t.Errorf("events %q, want none after READY", got)
	}
}

// What no device tells of is seen when the watchdog wakes the daemon anyway.
func TestAGlanceOnTheWatchdogsTickSeesADrift(t *testing.T) {
	h := inSync(t)
	looks := h.looks.Load()
	h.tick()
	if h.looks.Load() != looks {
		t.Error("it looks at every tick")
	}
	h.set(func() { h.steps, h.short = 8, "gpu0/mig/gi1" })
	h.tick()
	h.until("applying", phase(runstate.Applying))
	h.until("in sync", phase(runstate.InSync))
	if got := h.did(); got != bounce {
		t.Errorf("events %q, want %q", got, bounce)
	}
}

// The files that modes are written to come with the driver, with or without an event.
func TestWhatIsWatchedIsRenewedAfterEachRun(t *testing.T) {
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
