package daemon

import (
	"testing"
	"time"

	"dcm/internal/engine/runstate"
)

// unseen returns a host on which a run failed because an invisible holder uses the driver.
func unseen(t *testing.T) *host {
	t.Helper()
	h := inSync(t)
	h.set(func() {
		h.use = runstate.Use{Counted: true, Unseen: 2}
		use := h.use
		h.steps, h.run = 3, failing(runstate.Error{Text: "something that cannot be seen holds the driver", Transient: true, Unseen: &use})
		h.settings.Profile.Name = "other"
	})
	h.changed <- struct{}{}
	s := h.until("waiting", phase(runstate.Waiting))
	if !s.Retry.IsZero() || s.Unseen == nil {
		t.Errorf("state %+v, want no time for the next try", s)
	}
	h.tick()
	if got := h.did(); got != bounce {
		t.Fatalf("events %q, want one restart", got)
	}
	return h
}

func TestUnseenUse_NoSecondRestart(t *testing.T) {
	const errText = "something that cannot be seen holds the driver (2 of its use count); no client is restarted for it"
	for _, test := range []struct {
		name   string
		happen func(h *host)
		events string
	}{
		{"a kernel event", func(h *host) { h.set(func() { h.turns++ }); h.devices <- struct{}{} }, ""},
		{"an edit", func(h *host) { h.set(func() { h.settings.Profile.Name = "third" }); h.changed <- struct{}{} }, bounce},
		{"a reload by an administrator", func(h *host) { h.hangup <- nil }, "RELOADING " + bounce + " READY"},
		{"a request by an administrator", func(h *host) {
			h.requests <- Request{Asked: runstate.Asked{Why: "asked"}, Done: make(chan runstate.State, 1)}
		}, bounce},
		{"a holder ended", func(h *host) { h.set(func() { h.use.Unseen = 0 }); h.eased <- struct{}{} }, bounce},
		{"one holder ended and another began", func(h *host) { h.eased <- struct{}{} }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := unseen(t)
			if test.events != "" {
				h.set(func() { h.run = succeed })
			}
			test.happen(h)
			if test.events != "" {
				h.until("in sync", func(s runstate.State) bool { return s.Phase == runstate.InSync && s.Unseen == nil })
			} else {
				h.until("why not", func(s runstate.State) bool { return s.Error != nil && s.Error.Text == errText })
			}
			h.tick()
			if got := h.did(); got != test.events {
				t.Errorf("events %q, want %q", got, test.events)
			}
		})
	}
}

// An edit that asks for the same leaves the verdict, and the time of the next try, as
// they are.
func TestAnEditThatAsksForTheSameIsNoTry(t *testing.T) {
	h := unseen(t)
	looks := h.looks.Load()
	h.set(func() { h.settings.Source = "dcm.toml:2" })
	h.changed <- struct{}{}
	s := h.until("the edit", func(s runstate.State) bool { return s.Source == "dcm.toml:2" })
	h.tick()
	if got := h.did(); got != "" || s.Phase != runstate.Waiting || h.looks.Load() != looks {
		t.Errorf("events %q, phase %s, %d looks; want none", got, s.Phase, h.looks.Load()-looks)
	}
}

// A daemon that systemd starts again uses the result of the daemon before it. One that an
// administrator starts tries once more.
func TestUnseenUse_KnownToNextDaemon(t *testing.T) {
	for name, again := range map[string]bool{"started by systemd": true, "started by an administrator": false} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.steps, h.use = 3, runstate.Use{Counted: true, Unseen: 1}
			h.initial.Unseen, h.initial.Wish = &runstate.Use{Counted: true, Unseen: 1}, h.settings.hash()
			h.initial.Tries, h.initial.Tried = 1, time.Now().Add(-time.Hour)
			want, rest := bounce+" READY", runstate.InSync
			if again {
				h.startedAgain()
				want, rest = "READY", runstate.Waiting
			}
			h.start()
			h.until("rest", phase(rest))
			h.tick()
			if got := h.did(); got != want {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
}
