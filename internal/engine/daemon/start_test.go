package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// A start by an administrator fails with the reason. The next one, by systemd, stays up and waits
// until the reason is gone.
func TestStart_BySystemdAfterFailedStart(t *testing.T) {
	user := []runstate.Holder{{PID: 7, Command: "python3", Unit: "session-1.scope", Devices: []string{"/dev/kfd"}}}
	for _, test := range []struct {
		name  string
		given func(h *host)
		phase runstate.Phase
		err   any
		mend  func(h *host)
	}{
		{"a holder", func(h *host) { h.steps, h.blocking, h.retry = 3, user, Backoff{First: time.Hour, Most: time.Hour} }, runstate.Waiting, new(*StartError),
			func(h *host) { h.blocking = nil; close(h.gone) }},
		{"a profile that the GPUs do not support", func(h *host) { h.stepsErr = errors.New("no such mode") }, runstate.Stuck, new(*StartError),
			func(h *host) { h.stepsErr, h.settings.Profile.Name = nil, "other"; h.changed <- struct{}{} }},
		{"a broken configuration", func(h *host) { h.loadErr = errors.New("dcm.toml:3: bad") }, runstate.Stuck, new(*ConfigError),
			func(h *host) { h.loadErr = nil; h.changed <- struct{}{} }},
		{"a broken configuration that is repaired to select nothing", func(h *host) { h.loadErr = errors.New("dcm.toml:3: bad") }, runstate.Stuck, new(*ConfigError),
			func(h *host) { h.loadErr, h.settings = nil, Settings{}; h.changed <- struct{}{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			test.given(h)
			if err := <-h.start(); !errors.As(err, test.err) {
				t.Errorf("the start by hand ends with %v, want a %T", err, test.err)
			}
			if got := h.did(); got != "" {
				t.Errorf("events %q, want none", got)
			}
			h.initial = h.left()
			h.startedAgain()
			ended := h.start()
			s := h.until("a verdict that is announced", func(s runstate.State) bool { return s.Phase == test.phase })
			if s.Error == nil {
				t.Error("no reason is reported")
			}
			// If the configuration is invalid, the start fails before the daemon reads the GPUs.
			got := h.did()
			for wait := time.Now().Add(10 * time.Second); got == "" && time.Now().Before(wait); got = h.did() {
				h.tick()
			}
			if got != "READY" {
				t.Errorf("events %q, want READY and nothing else", got)
			}
			h.set(func() { test.mend(h) })
			h.until("rest", func(s runstate.State) bool { return s.Phase == runstate.InSync || s.Phase == runstate.Idle })
			select {
			case err := <-ended:
				t.Errorf("the daemon has ended: %v", err)
			default:
			}
		})
	}
}

// The daemon may be killed while the file is not valid.
func TestStart_KeepsLastGoodConfiguration(t *testing.T) {
	h := newHost(t)
	h.good = &Settings{Profile: h.settings.Profile, Selected: true, Order: h.settings.Order}
	h.loadErr = errors.New("dcm.toml:3: bad")
	h.startedAgain()
	h.start()
	s := h.until("a verdict", func(s runstate.State) bool { return s.Phase == runstate.InSync })
	if s.Config != "dcm.toml:3: bad" || s.Profile != h.good.Profile.Name || s.Error != nil {
		t.Errorf("state %+v", s)
	}
	h.tick()
	if got := h.did(); got != "READY" {
		t.Errorf("events %q, want READY and nothing else", got)
	}
}

func TestStart_NoUselessRestart(t *testing.T) {
	refused := runstate.Error{Text: "no such mode"}
	busy := runstate.Error{Text: "busy", Transient: true}
	for _, test := range []struct {
		name   string
		given  func(h *host)
		phase  runstate.Phase
		events string
	}{
		{"a run has shown that no attempt can succeed", func(h *host) {
			h.initial.Tries, h.initial.Tried, h.initial.Wish, h.initial.Error = 1, time.Now().Add(-time.Hour), h.settings.hash(), &refused
		}, runstate.Stuck, "READY"},
		{"that was with another configuration", func(h *host) {
			h.initial.Tries, h.initial.Tried, h.initial.Wish, h.initial.Error = 1, time.Now().Add(-2*time.Hour), "other", &refused
		}, runstate.InSync, "reset:a.service restart:dcm-apply.service READY"},
		{"the next attempt is not due", func(h *host) {
			h.initial.Tries, h.initial.Tried, h.initial.Error = 1, time.Now(), &busy
		}, runstate.Waiting, "READY"},
		{"the one before was killed in a run, and its time has not come", func(h *host) {
			h.initial.Tries, h.initial.Tried = 1, time.Now()
		}, runstate.Waiting, "READY"},
		{"its time has come", func(h *host) {
			h.initial.Tries, h.initial.Tried, h.initial.Error = 3, time.Now().Add(-2*time.Hour), &busy
		}, runstate.InSync, "reset:a.service restart:dcm-apply.service READY"},
		{"no attempt failed since the profile was last on the GPUs", func(h *host) {},
			runstate.InSync, "reset:a.service restart:dcm-apply.service READY"},
		{"an administrator starts it", func(h *host) {
			h.initial.Tries, h.initial.Tried, h.initial.Wish, h.initial.Error = 1, time.Now(), h.settings.hash(), &refused
			delete(h.units, unitname.Daemon)
		}, runstate.InSync, "reset:a.service restart:dcm-apply.service READY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.steps, h.retry = 3, Backoff{First: time.Hour, Most: time.Hour}
			h.startedAgain()
			test.given(h)
			h.start()
			h.until(string(test.phase), phase(test.phase))
			h.tick()
			if got := h.did(); got != test.events {
				t.Errorf("events %q, want %q", got, test.events)
			}
		})
	}
}

func TestTries_CountedUntilSuccess(t *testing.T) {
	h := newHost(t)
	h.steps = 3
	h.startedAgain()
	tries := 0
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		if tries++; tries == 3 {
			return succeed(h)
		}
		return failing(runstate.Error{Text: "busy", Transient: true})(h)
	}
	h.start()
	for want := range 3 {
		if s := h.until("applying", phase(runstate.Applying)); s.Tries != want+1 || s.Tried.IsZero() {
			t.Errorf("try %d at %v, want %d", s.Tries, s.Tried, want+1)
		}
	}
	if s := h.until("in sync", phase(runstate.InSync)); s.Tries != 0 {
		t.Errorf("%d tries are counted in sync", s.Tries)
	}
}

func TestFailure_LoggedOnce(t *testing.T) {
	for name, reason := range map[string]func(h *host){
		"busy": func(h *host) { h.stepsErr = errPassing },
		"dcm.toml:3: bad": func(h *host) {
			h.loadErr = errors.New("dcm.toml:3: bad")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			var journal bytes.Buffer
			h.log = slog.New(slog.NewTextHandler(&journal, nil))
			reason(h)
			<-h.start()
			h.initial = h.left()
			h.startedAgain()
			ended := h.start()
			for range 3 { // tries
				h.until("a verdict", func(s runstate.State) bool {
					return s.Error != nil && (s.Phase == runstate.Waiting || s.Phase == runstate.Stuck)
				})
				h.hangup <- nil
			}
			h.stop()
			<-ended
			if n := strings.Count(journal.String(), "level=ERROR"); n != 1 {
				t.Errorf("%d entries have the reason, want one:\n%s", n, journal.String())
			}
		})
	}
}

func TestRun_RefusedIfStateCannotBeSaved(t *testing.T) {
	h := newHost(t)
	h.steps, h.saveErr = 3, errors.New("read-only file system")
	h.units[unitname.Apply] = systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: "active"}
	err := <-h.start()
	if err == nil || !strings.Contains(err.Error(), "no unit is stopped") || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("Run returned %v, want the reason", err)
	}
	if got := h.did(); got != "" {
		t.Errorf("events %q, want none", got)
	}
}

func TestUnloadedDriver_Loaded(t *testing.T) {
	load := func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.unloaded = false
		return succeed(h)
	}
	for _, test := range []struct {
		name   string
		given  func(h *host)
		phase  runstate.Phase
		events string
	}{
		{"no profile", func(h *host) { h.settings.Selected = false }, runstate.Idle, "reset:a.service restart:dcm-apply.service READY"},
		{"a profile", func(*host) {}, runstate.InSync, "reset:a.service restart:dcm-apply.service READY"},
		{"a broken configuration", func(h *host) {
			h.startedAgain()
			h.loadErr = errors.New("dcm.toml:3: bad")
		}, runstate.Stuck, "restart:dcm-apply.service READY"},
		{"a broken configuration, and a client that ended without the driver", func(h *host) {
			h.startedAgain()
			h.loadErr = errors.New("dcm.toml:3: bad")
			h.units["b.service"] = systemd.Unit{Name: "b.service", Load: "loaded", Active: "failed", Result: "exit-code", Invocation: "7"}
			h.ends = map[string]systemd.End{"b.service": {Tried: 6, Began: 6, Exited: 7, Left: 8}, unitname.Apply: {Began: 5, Parts: []string{"b.service"}}}
			h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
				h.unloaded = false
				return failing(runstate.Error{Text: "dcm.toml:3: bad"})(h)
			}
		}, runstate.Stuck, "restart:dcm-apply.service reset:b.service start:b.service READY"},
		{"a client that ended without the driver", func(h *host) {
			h.settings.Selected = false
			h.units["b.service"] = systemd.Unit{Name: "b.service", Load: "loaded", Active: "inactive", Result: "success", Invocation: "7"}
			h.ends = map[string]systemd.End{"b.service": {Tried: 6, Began: 6, Exited: 7, Left: 8}, unitname.Apply: {Began: 5}}
		}, runstate.Idle, "reset:a.service restart:dcm-apply.service reset:b.service start:b.service READY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.unloaded, h.run = true, load
			test.given(h)
			h.start()
			h.until("applying", phase(runstate.Applying))
			h.until(string(test.phase), func(s runstate.State) bool {
				return s.Phase == test.phase && len(s.Pending) == 0 || test.phase == runstate.Stuck && len(s.Pending) > 0
			})
			h.tick()
			if got := h.did(); got != test.events {
				t.Errorf("events %q, want %q", got, test.events)
			}
		})
	}
}

// Without a selected profile, only an unloaded driver matters.
func TestUnloadedDriver_LoadedWithoutProfile(t *testing.T) {
	h := newHost(t)
	h.settings.Selected = false
	h.start()
	h.until("idle", phase(runstate.Idle))
	h.tick()
	h.did()
	h.set(func() {
		h.unloaded, h.turns = true, 1
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) { h.unloaded = false; return succeed(h) }
	})
	h.devices <- struct{}{}
	h.until("applying", phase(runstate.Applying))
	h.until("idle", phase(runstate.Idle))
	h.tick()
	if got, want := h.did(), "reset:a.service restart:dcm-apply.service"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestClearFailed(t *testing.T) {
	for name, given := range map[string]func(h *host){
		"it was killed, and had done its work": func(h *host) { h.last = &runstate.Run{Result: runstate.Running} },
		"a hook of it failed": func(h *host) {
			h.last, h.initial.Error = &runstate.Run{Result: runstate.Applied}, &runstate.Error{Text: "x"}
		},
		"killed after its report": func(h *host) { h.last = &runstate.Run{Result: runstate.Applied} },
		"it has never reported":   func(*host) {},
		"nothing is selected by now": func(h *host) {
			h.last, h.settings.Selected = &runstate.Run{Result: runstate.Failed}, false
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.units[unitname.Apply] = systemd.Unit{Name: unitname.Apply, Load: "loaded", Active: "failed", Result: "signal"}
			given(h)
			h.start()
			h.until("a verdict", func(s runstate.State) bool { return s.Phase == runstate.InSync || s.Phase == runstate.Idle })
			h.tick()
			if got, want := h.did(), "reset:dcm-apply.service READY"; got != want {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
}

func TestRun_NewerEditReportedWithItsProfile(t *testing.T) {
	h := newHost(t)
	var journal bytes.Buffer
	h.log = slog.New(slog.NewTextHandler(&journal, nil))
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() {
		h.steps = 3
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			h.settings.Profile.Name = "spx"
			u, run, err := succeed(h)
			run.Profile = "spx"
			return u, run, err
		}
	})
	h.changed <- struct{}{}
	s := h.until("in sync", func(s runstate.State) bool { return s.Phase == runstate.InSync && s.Restart.Run != "" })
	if s.Profile != "spx" {
		t.Errorf("profile %s is reported, want spx", s.Profile)
	}
	h.tick()
	h.stop()
	if text := journal.String(); strings.Contains(text, "profile cpx is on the GPUs, and") || !strings.Contains(text, "profile spx is on the GPUs") {
		t.Errorf("the journal has:\n%s", text)
	}
}
