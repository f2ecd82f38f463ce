package daemon

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/testdeadline"
)

func TestStart(t *testing.T) {
	busyUser := runstate.Holder{PID: 7, Command: "python3", Unit: "session-1.scope", Devices: []string{"/dev/kfd"}}
	for _, test := range []struct {
		name   string
		given  func(h *host)
		events string
		err    string // that Run returns; "" if the daemon keeps running
	}{
		{"nothing to do touches no unit", func(h *host) {}, "READY", ""},
		{"no profile leaves the GPUs alone", func(h *host) { h.settings.Selected, h.steps = false, 3 }, "READY", ""},
		{"one restart, with the start counter of the active client cleared",
			func(h *host) { h.steps = 3 }, "reset:a.service restart:dcm-apply.service READY", ""},
		{"the start counter of a unit that depends on a client is cleared too",
			func(h *host) {
				h.steps, h.depend = 3, []string{"c.service"}
				h.units["c.service"] = systemd.Unit{Name: "c.service", Load: "loaded", Active: "active"}
			}, "reset:a.service reset:c.service restart:dcm-apply.service READY", ""},
		{"a changed list of clients reloads systemd and restarts nothing",
			func(h *host) { h.stale = true }, "daemon-reload READY", ""},
		{"drop-ins come before the restart",
			func(h *host) { h.stale, h.steps = true, 3 }, "daemon-reload reset:a.service restart:dcm-apply.service READY", ""},
		{"the daemon waits for a run in progress and does not restart it",
			func(h *host) { h.busy = true }, "await READY", ""},
		{"the daemon waits for a run that has not yet taken its lock",
			func(h *host) {
				h.steps = 3
				u := h.units[unitname.Apply]
				u.Active = "activating"
				h.units[unitname.Apply] = u
			}, "await reset:a.service restart:dcm-apply.service READY", ""},
		{"a holder that no restart frees prevents the restart",
			func(h *host) { h.steps, h.blocking = 3, []runstate.Holder{busyUser} }, "",
			"GPUs are in use: python3 (pid 7, session-1.scope) has /dev/kfd open"},
		{"a holder in a client does not",
			func(h *host) {
				h.steps, h.blocking = 3, []runstate.Holder{{PID: 8, Command: "a", Unit: "a.service"}}
			}, "reset:a.service restart:dcm-apply.service READY", ""},
		{"a holder in a client that is listed but not active does",
			func(h *host) {
				h.steps, h.blocking = 3, []runstate.Holder{{PID: 8, Command: "b", Unit: "b.service", Devices: []string{"/dev/kfd"}}}
			}, "", "GPUs are in use: b (pid 8, b.service) has /dev/kfd open"},
		{"a broken configuration ends it", func(h *host) { h.loadErr = errors.New("dcm.toml:3: bad") }, "", "dcm.toml:3: bad"},
		{"a failed run ends it with the run's own reason",
			func(h *host) { h.steps, h.run = 3, failing(runstate.Error{Text: "no such mode"}) },
			"reset:a.service restart:dcm-apply.service", "no such mode"},
		{"a killed run ends it with systemd's result",
			func(h *host) {
				h.steps = 3
				h.run = func(*host) (systemd.Unit, *runstate.Run, error) {
					return systemd.Unit{Active: "failed", Result: "signal", Invocation: "2"}, &runstate.Run{ID: "1", Result: runstate.Applied}, nil
				}
			}, "reset:a.service restart:dcm-apply.service",
			`dcm-apply.service ended with result "signal" before it wrote a reason`},
		{"a run that hangs for too long ends it with what it was at",
			func(h *host) {
				h.steps = 3
				h.run = func(*host) (systemd.Unit, *runstate.Run, error) {
					began := time.Now()
					return systemd.Unit{Active: "failed", Result: "timeout", Invocation: "1"}, &runstate.Run{ID: "1", Result: runstate.Running, Steps: []runstate.Step{
						{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "0000:05:00.0", From: "SPX", To: "CPX"}, Started: began, Finished: began},
						{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "0000:26:00.0", From: "SPX", To: "CPX"}, Started: began},
						{Step: partition.Step{Kind: partition.SwitchCompute, GPU: "0000:46:00.0", From: "SPX", To: "CPX"}},
					}}, nil
				}
			}, "reset:a.service restart:dcm-apply.service",
			`dcm-apply.service took longer than its TimeoutStartSec= and was stopped; in progress: switch 0000:26:00.0 from SPX to CPX`},
		{"a run that succeeded and could not write its report, with the GPUs otherwise, ends it",
			func(h *host) {
				h.steps = 3
				h.run = func(*host) (systemd.Unit, *runstate.Run, error) {
					return systemd.Unit{Active: "active", Result: "success", Invocation: "2"}, &runstate.Run{ID: "1", Result: runstate.Applied}, nil
				}
			}, "reset:a.service restart:dcm-apply.service",
			`dcm-apply.service ended with result "success" before it wrote a reason`},
		{"a run that succeeded and could not write its report is believed when the GPUs are as selected",
			func(h *host) {
				h.steps = 3
				h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
					h.steps = 0
					return systemd.Unit{Active: "active", Result: "success", Invocation: "2"}, nil, nil
				}
			}, "reset:a.service restart:dcm-apply.service READY", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			test.given(h)
			ended := h.start()
			if test.err == "" {
				h.until("a verdict", func(s runstate.State) bool { return s.Phase == runstate.InSync || s.Phase == runstate.Idle })
				h.tick()
			} else if err := <-ended; err == nil || err.Error() != test.err {
				t.Errorf("Run returned %v, want %s", err, test.err)
			}
			if diff := cmp.Diff(test.events, h.did()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// tick sends a watchdog tick and waits for the loop's answer. The loop has then handled all earlier
// events.
func (h *host) tick() {
	h.t.Helper()
	for range 2 {
		select {
		case h.ticks <- time.Time{}:
		case <-testdeadline.After(10 * time.Second):
			h.t.Fatal("the loop does not answer the watchdog")
		}
	}
}

// TestDropins_BrokenGenerator: if a daemon-reload does not help, passes do not repeat it. Package
// dropins repeats it, with a back-off.
func TestDropins_BrokenGenerator(t *testing.T) {
	h := newHost(t)
	h.stale, h.broken = true, true
	h.start()
	h.until("in sync", phase(runstate.InSync))
	pass := func(what, events string, begin func()) {
		t.Helper()
		h.tick() // the pass before has ended, with all of its events
		h.left()
		h.did()
		begin()
		h.until("the end of the pass", func(runstate.State) bool { return true })
		h.tick()
		if diff := cmp.Diff(events, h.did()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", what, diff)
		}
	}
	edit := func() { h.changed <- struct{}{} }
	pass("an edit", "", edit)
	pass("another edit", "", edit)
	pass("an administrator's reload", "RELOADING daemon-reload READY", func() { h.hangup <- nil })
	h.set(func() { h.settings.Order.Clients = []string{"a.service", "c.service"} })
	pass("another list of clients", "daemon-reload", edit)
	pass("the same again", "", edit)
	h.set(func() { h.broken, h.stale, h.generated = false, false, h.settings.Order.Clients })
	pass("mended by others", "", edit)
	h.set(func() { h.stale = true })
	pass("lost again", "daemon-reload", edit)
	h.set(func() { h.stale, h.edited = true, []string{"x.service"} })
	pass("an edit that another one follows before the generator reads it", "daemon-reload", edit)
	h.set(func() { h.edited = nil })
	pass("the first edit again", "daemon-reload", edit)
}

func TestEdit_InvalidKeepsLastGood(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.loadErr = errors.New("dcm.toml:9: profile = \"x\": no such profile") })
	h.changed <- struct{}{}
	s := h.until("the problem", func(s runstate.State) bool { return s.Config != "" && s.Phase == runstate.InSync })
	if s.Profile != "cpx" || !strings.Contains(s.Config, "dcm.toml:9") {
		t.Errorf("profile %q, problem %q; want the old profile and the line", s.Profile, s.Config)
	}
	h.set(func() { h.loadErr = nil })
	h.changed <- struct{}{}
	h.until("no problem", func(s runstate.State) bool { return s.Config == "" })
	h.tick()
	if got := h.did(); got != "READY" {
		t.Errorf("events %q, want no restart at all", got)
	}
}

func TestEdit_Applied(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.steps = 8 })
	h.changed <- struct{}{}
	h.until("applying", phase(runstate.Applying))
	s := h.until("in sync", phase(runstate.InSync))
	want := []runstate.Client{
		{Unit: "a.service", Before: "active", Now: "active", Sub: "running", Result: "success", Back: true},
		{Unit: "b.service", Before: "inactive", Now: "inactive", Sub: "dead", Result: "success", Back: true},
	}
	if diff := cmp.Diff(want, s.Clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
}

func TestHangup_ReadyAfterRun(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() { h.steps = 8 })
	h.hangup <- syscall.SIGHUP
	h.until("applying", phase(runstate.Applying))
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	if got, want := h.did(), "RELOADING reset:a.service restart:dcm-apply.service READY"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestRetry_UntilSuccess(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.stepsErr = errPassing })
	h.changed <- struct{}{}
	for range 3 {
		if s := h.until("waiting", phase(runstate.Waiting)); s.Retry.IsZero() || s.Error == nil {
			t.Errorf("retry at %v for %v, want both", s.Retry, s.Error)
		}
	}
	h.set(func() { h.stepsErr = nil })
	h.until("in sync", phase(runstate.InSync))
}

// A GPU that disappears and returns during a run causes no event after it, so dcm retries. If it is absent at the end
// of the run, its return is an event.
func TestRetry_GPUThatReturned(t *testing.T) {
	const other, gone = partition.Address("0000:05:00.0"), partition.Address("0000:26:00.0")
	both := []partition.Address{other, gone}
	for _, tt := range []struct {
		name          string
		before, after []partition.Address // the run
		want          runstate.Phase
	}{
		{"returned", both, both, runstate.Waiting},
		{"returned, absent before", []partition.Address{other}, both, runstate.Waiting},
		{"absent after", both, []partition.Address{other}, runstate.Stuck},
		{"no GPU readable after", both, nil, runstate.Stuck},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.retry = Backoff{First: time.Hour, Most: time.Hour}
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.set(func() {
				h.gpus, h.steps = tt.before, 3
				h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
					h.gpus = tt.after
					return failing(runstate.Error{Text: "0000:26:00.0 is gone", Gone: gone})(h)
				}
			})
			h.changed <- struct{}{}
			s := h.until("failed", func(s runstate.State) bool { return s.Error != nil })
			if s.Phase != tt.want || s.Error.Transient != (tt.want == runstate.Waiting) {
				t.Errorf("phase %s, error %+v, want %s", s.Phase, s.Error, tt.want)
			}
		})
	}
}

func TestRetry_NotAfterPermanentFailure(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.steps, h.run = 3, failing(runstate.Error{Text: "unsupported"}) })
	h.changed <- struct{}{}
	h.until("failed", phase(runstate.Stuck))
	h.tick()
	h.did()
	h.tick()
	h.set(func() { h.settings.Source = "dcm.toml:9" }) // a comment was added above
	h.changed <- struct{}{}
	h.until("the edit", func(s runstate.State) bool { return s.Source == "dcm.toml:9" })
	h.set(func() { h.loadErr = errors.New("dcm.toml:3: bad") })
	h.changed <- struct{}{}
	h.until("the broken edit", func(s runstate.State) bool { return s.Config != "" })
	h.tick()
	if got := h.did(); got != "" {
		t.Errorf("events %q after a permanent failure and edits that change nothing, want none", got)
	}
	h.set(func() { h.loadErr, h.run, h.settings.Profile.Name = nil, succeed, "other" })
	h.changed <- struct{}{}
	h.until("in sync", phase(runstate.InSync))
}

func TestRetry_WhenHolderEnds(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() {
		h.steps = 3
		h.blocking = []runstate.Holder{{PID: 7, Command: "python3", Unit: "session-1.scope"}}
	})
	h.changed <- struct{}{}
	if s := h.until("waiting", phase(runstate.Waiting)); len(s.Holders) != 1 || s.Holders[0].PID != 7 {
		t.Errorf("holders %v, want pid 7", s.Holders)
	}
	h.set(func() { h.blocking = nil })
	close(h.gone)
	if s := h.until("in sync", phase(runstate.InSync)); len(s.Holders) != 0 {
		t.Errorf("holders are still %v", s.Holders)
	}
}

func TestClients_NotBack(t *testing.T) {
	h := newHost(t)
	h.steps = 3
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "failed", Result: "exit-code", Restarts: 4}
		return succeed(h)
	}
	h.start()
	s := h.until("in sync", phase(runstate.InSync))
	if s.Error == nil || s.Error.Text != "not back: a.service was active and is failed (exit-code)" {
		t.Errorf("error %v, want the client named with its result", s.Error)
	}
	if c := s.Clients[0]; c.Back || c.Restarts != 4 {
		t.Errorf("client %+v, want it not back after 4 restarts", c)
	}
}

// A job (Type=oneshot), as a timer starts one, is never active.
func TestClients_OneshotIsBack(t *testing.T) {
	running := systemd.Unit{Name: "job.service", Load: "loaded", Active: "activating", Oneshot: true, Result: "success", Invocation: "1"}
	for _, tt := range []struct {
		name string
		now  systemd.Unit
		back bool
	}{
		{"it ended with success", systemd.Unit{Active: "inactive", Oneshot: true, Result: "success", Invocation: "2"}, true},
		{"it still runs", systemd.Unit{Active: "activating", Oneshot: true, Result: "success", Invocation: "2"}, true},
		{"it failed", systemd.Unit{Active: "failed", Oneshot: true, Result: "exit-code", Invocation: "2"}, false},
		{"it was not started again", systemd.Unit{Active: "inactive", Oneshot: true, Result: "success", Invocation: "1"}, false},
		{"it is a service", systemd.Unit{Active: "inactive", Result: "success", Invocation: "2"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.settings.Order.Clients, h.generated = []string{"job.service"}, []string{"job.service"}
			h.units["job.service"] = running
			h.steps = 3
			h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
				tt.now.Name, tt.now.Load = "job.service", "loaded"
				h.units["job.service"] = tt.now
				return succeed(h)
			}
			h.start()
			s := h.until("in sync", phase(runstate.InSync))
			if len(s.Clients) != 1 || s.Clients[0].Back != tt.back || (s.Error == nil) != tt.back {
				t.Errorf("clients are %+v, error %+v, want back %t", s.Clients, s.Error, tt.back)
			}
		})
	}
}

func TestEdit_DuringRun(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	running, release := make(chan struct{}), make(chan struct{})
	h.set(func() {
		h.steps = 3
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			h.mu.Unlock()
			close(running)
			<-release
			h.mu.Lock()
			h.run = succeed
			h.steps, h.settings.Rest = 1, "edited" // the last edit asks for one more
			return systemd.Unit{Active: "active", Result: "success", Invocation: "1"}, &runstate.Run{ID: "1", Result: runstate.Applied}, nil
		}
	})
	h.changed <- struct{}{}
	<-running
	h.changed <- struct{}{}
	h.tick()
	h.changed <- struct{}{}
	h.tick()
	close(release)
	h.until("in sync after both", func(s runstate.State) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return s.Phase == runstate.InSync && h.steps == 0
	})
	h.tick()
	if got, want := h.did(), "reset:a.service restart:dcm-apply.service reset:a.service restart:dcm-apply.service"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: 4 * time.Second, Most: 60 * time.Second}
	for n, most := range map[int]time.Duration{1: 4 * time.Second, 2: 8 * time.Second, 4: 32 * time.Second, 5: 60 * time.Second, 1000: 60 * time.Second} {
		for range 50 {
			if d := b.After(n); d > most || d < most*3/4 {
				t.Errorf("After(%d) = %s, want between %s and %s", n, d, most*3/4, most)
			}
		}
	}
}
