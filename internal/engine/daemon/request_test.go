package daemon

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/testkit/testdeadline"
)

// ask sends a request and returns the channel of its answer.
func (h *host) ask() <-chan runstate.State {
	h.t.Helper()
	done := make(chan runstate.State, 1)
	select {
	case h.requests <- Request{runstate.Asked{Why: "asked by a test"}, done}:
	case <-testdeadline.After(10 * time.Second):
		h.t.Fatal("the loop did not receive the request within the limit of the test")
	}
	return done
}

func (h *host) answered(done <-chan runstate.State) runstate.State {
	h.t.Helper()
	select {
	case s := <-done:
		return s
	case <-testdeadline.After(10 * time.Second):
		h.t.Fatal("no answer to the request within the limit of the test")
	}
	panic("unreachable")
}

func TestRequest_AnsweredAfterRun(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() { h.steps = 8 })
	s := h.answered(h.ask())
	if s.Phase != runstate.InSync || len(s.Clients) != 2 {
		t.Errorf("answered with %s and %d clients, want in-sync and 2", s.Phase, len(s.Clients))
	}
	h.tick()
	if got, want := h.did(), "reset:a.service restart:dcm-apply.service"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestRequest_DuringRun(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	running, release := make(chan struct{}), make(chan struct{})
	h.set(func() {
		h.steps = 3
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			h.mu.Unlock()
			close(running)
			<-release
			h.mu.Lock()
			h.run, h.steps = succeed, 0
			h.settings.Source = "changed during the run"
			return systemd.Unit{Active: "active", Result: "success", Invocation: "1"}, &runstate.Run{ID: "1", Result: runstate.Applied}, nil
		}
	})
	first := h.ask()
	<-running
	second := h.ask()
	h.tick()
	select {
	case s := <-second:
		t.Errorf("answered with %s while the run was under way", s.Phase)
	default:
	}
	close(release)
	for _, done := range []<-chan runstate.State{first, second} {
		if s := h.answered(done); s.Phase != runstate.InSync || s.Source != "changed during the run" {
			t.Errorf("answered with %s and source %q, want the state after the request", s.Phase, s.Source)
		}
	}
}

// The method Use writes the configuration and makes a request. The event of the edit
// comes while the run is under way, or shortly after it.
func TestRequest_FailedRunIsNotRepeatedForItsOwnEdit(t *testing.T) {
	for _, test := range []struct {
		name      string
		transient bool
		after     bool // the event comes after the run
	}{{"permanent", false, false}, {"permanent, late event", false, true}, {"transient", true, false}, {"transient, late event", true, true}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.retry = Backoff{First: time.Hour, Most: time.Hour}
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.tick()
			h.did()
			running, release := make(chan struct{}), make(chan struct{})
			h.set(func() {
				h.steps, h.settings.Profile.Name = 3, "other"
				h.units["a.service"] = systemd.Unit{Name: "a.service", Load: "loaded", Active: "inactive"}
				h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
					h.mu.Unlock()
					close(running)
					<-release
					h.mu.Lock()
					h.run = failing(runstate.Error{Text: "it was run again"})
					u, run, err := failing(runstate.Error{Text: "no such mode", Transient: test.transient})(h)
					run.Profile = "other"
					return u, run, err
				}
			})
			done := h.ask()
			<-running
			if !test.after {
				h.changed <- struct{}{}
				h.tick()
			}
			close(release)
			s := h.answered(done)
			if test.after {
				h.changed <- struct{}{}
			}
			for h.tick(); len(h.changed) > 0; {
				h.tick()
			}
			h.tick()
			if got, want := h.did(), "restart:dcm-apply.service"; got != want || s.Error == nil || s.Error.Text != "no such mode" {
				t.Errorf("events %q, want %q; answered with %+v", got, want, s.Error)
			}
		})
	}
}

// If an edit during a start has no effect on the settings, the start still fails.
func TestStart_FailsDespiteEditWithoutEffect(t *testing.T) {
	h := newHost(t)
	running, release := make(chan struct{}), make(chan struct{})
	h.steps = 3
	h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
		h.mu.Unlock()
		close(running)
		<-release
		h.mu.Lock()
		return failing(runstate.Error{Text: "no such mode"})(h)
	}
	ended := h.start()
	<-running
	h.changed <- struct{}{}
	h.tick()
	close(release)
	select {
	case err := <-ended:
		if err == nil || err.Error() != "no such mode" {
			t.Errorf("Run returned %v", err)
		}
		if got, want := h.did(), "reset:a.service restart:dcm-apply.service"; got != want {
			t.Errorf("events %q, want %q", got, want)
		}
	case <-testdeadline.After(10 * time.Second):
		t.Errorf("the start does not fail; events %q", h.did())
	}
}

func TestRequest_AnsweredWithFailure(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.loadErr = errors.New("dcm.toml:9: bad") })
	if s := h.answered(h.ask()); s.Config != "dcm.toml:9: bad" || s.Phase != runstate.InSync {
		t.Errorf("answered with problem %q, phase %s", s.Config, s.Phase)
	}
	h.set(func() { h.loadErr, h.stepsErr = nil, errors.New("no such mode") })
	if s := h.answered(h.ask()); s.Phase != runstate.Stuck || s.Error == nil || s.Error.Text != "no such mode" {
		t.Errorf("answered with %s, %v", s.Phase, s.Error)
	}
}

// If GPUs appear that do not match the profile, the reason of the run names them.
func TestAsked_GPUAdded(t *testing.T) {
	h := newHost(t)
	h.gpus = []partition.Address{"0000:05:00.0"}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.set(func() { h.steps, h.gpus = 1, append(h.gpus, "0000:26:00.0") })
	h.devices <- struct{}{}
	s := h.until("applying", phase(runstate.Applying))
	if want := "a GPU was added: 0000:26:00.0"; s.Asked == nil || s.Asked.String() != want {
		t.Errorf("asked is %v, want %q", s.Asked, want)
	}
	h.until("in sync", phase(runstate.InSync))
}

// A command writes a note about how the change is made, then edits, then makes a request. If the edit has begun the
// pass under way, the request waits for it: a change that fails is not repeated.
func TestRequest_AfterItsOwnEdit(t *testing.T) {
	for _, tt := range []struct {
		name string
		who  runstate.Who
		want int // runs
	}{{"the same process", runstate.Who{PID: 7}, 1}, {"another process", runstate.Who{PID: 8}, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.start()
			h.until("in sync", phase(runstate.InSync))
			running, release, runs := make(chan struct{}, 2), make(chan struct{}), 0
			h.set(func() {
				h.steps, h.noted = 3, []runstate.Note{note("dcm use pair", &runstate.Who{PID: 7, Sudo: "ada"}, nil)}
				h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
					h.mu.Unlock()
					runs++
					running <- struct{}{}
					<-release
					h.mu.Lock()
					return failing(runstate.Error{Text: "unsupported"})(h)
				}
			})
			h.changed <- struct{}{}
			<-running
			done := h.request(tt.who)
			h.tick() // the loop has received the request
			close(release)
			if s := h.answered(done); s.Phase != runstate.Stuck {
				t.Errorf("answered with %s, want the failure", s.Phase)
			}
			if runs != tt.want {
				t.Errorf("%d runs, want %d", runs, tt.want)
			}
		})
	}
}

// A request takes the note of its process, and leaves that of another one. A reload takes any note: the command
// that has edited the configuration may have requested it.
func TestRequest_TakesNoteOfItsProcess(t *testing.T) {
	noted := note("dcm apply pair", &runstate.Who{PID: 7}, nil)
	for _, tt := range []struct {
		name    string
		request func(*host)
		want    string
		left    bool
	}{
		{"its process", func(h *host) { _ = h.request(runstate.Who{PID: 7}) }, "dcm apply pair", false},
		{"another process", func(h *host) { _ = h.request(runstate.Who{PID: 8}) }, "Apply() was called over D-Bus", true},
		{"another user", func(h *host) { _ = h.request(runstate.Who{UID: 1000, PID: 7}) }, "Apply() was called over D-Bus", true},
		{"reload", func(h *host) { h.hangup <- syscall.SIGHUP }, "dcm apply pair", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.set(func() { h.steps, h.noted = 1, []runstate.Note{noted} })
			tt.request(h)
			s := h.until("applying", phase(runstate.Applying))
			last := h.until("in sync", phase(runstate.InSync))
			if s.Asked == nil || s.Asked.Why != tt.want {
				t.Errorf("the run was requested by %+v, want %q", s.Asked, tt.want)
			}
			if left := len(last.Announced) > 0; left != tt.left {
				t.Errorf("the note is left: %t, want %t", left, tt.left)
			}
			h.set(func() {
				if len(h.noted) > 0 {
					t.Errorf("the files of notes are left: %v", h.noted)
				}
			})
		})
	}
}

func (h *host) request(who runstate.Who) <-chan runstate.State {
	done := make(chan runstate.State, 1)
	h.requests <- Request{Asked: runstate.Asked{Why: "Apply() was called over D-Bus", Who: &who}, Done: done}
	return done
}

// The reason of a run is saved before it begins. Of several reasons, the first with a user is kept.
func TestAsked_SavedBeforeRun(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	asked := func(begin func()) string {
		t.Helper()
		h.set(func() { h.steps = 1 })
		begin()
		s := h.until("applying", phase(runstate.Applying))
		h.until("in sync", phase(runstate.InSync))
		if s.Asked == nil {
			return ""
		}
		return s.Asked.String()
	}
	if got, want := asked(func() { h.changed <- struct{}{} }), "the configuration changed"; got != want {
		t.Errorf("after an edit: %q, want %q", got, want)
	}
	h.set(func() { h.noted = []runstate.Note{note("dcm use cpx-fast", &runstate.Who{User: "root"}, nil)} })
	if got, want := asked(func() { h.changed <- struct{}{} }), "dcm use cpx-fast, by root"; got != want {
		t.Errorf("after the edit of a command: %q, want %q", got, want)
	}
	if got, want := asked(func() { h.changed <- struct{}{} }), "the configuration changed"; got != want {
		t.Errorf("after a later edit: %q, want %q", got, want)
	}
	if got, want := asked(func() { h.devices <- struct{}{} }), "another program has changed the GPUs"; got != want {
		t.Errorf("after a drift: %q, want %q", got, want)
	}
	done := make(chan runstate.State, 1)
	person := runstate.Asked{Why: "Apply() was called over D-Bus", Who: &runstate.Who{UID: 1000, User: "alice"}}
	if got, want := asked(func() { h.requests <- Request{person, done} }), "Apply() was called over D-Bus, by alice"; got != want {
		t.Errorf("after a request: %q, want %q", got, want)
	}
}
