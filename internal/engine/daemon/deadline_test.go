package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

func TestDeadline(t *testing.T) {
	for _, test := range []struct {
		name string
		then func(h *host) // is called a minute after the start, with a deadline after 10 minutes
		want changed       // after 12 minutes
	}{
		{"not confirmed", func(*host) {}, changed{"spx", whyNotConfirmed, runstate.InSync}},
		{"confirmed", func(h *host) { h.settings.ConfirmBy = time.Time{} }, changed{"cpx", "", runstate.InSync}},
		{"replaced", func(h *host) { h.settings.Profile.Name, h.settings.ConfirmBy = "dpx", time.Time{} }, changed{"dpx", "", runstate.InSync}},
		{"later deadline", func(h *host) { h.settings.ConfirmBy = time.Now().Add(time.Hour) }, changed{"cpx", "", runstate.InSync}},
		{"the configuration cannot be used", func(h *host) { h.loadErr = errors.New("dcm.toml:1: bad") }, changed{"cpx", "", runstate.InSync}},
		{"the configuration is valid again after the deadline", func(h *host) {
			h.loadErr = errors.New("dcm.toml:1: bad")
			time.AfterFunc(10*time.Minute+15*time.Second, func() { h.set(func() { h.loadErr = nil }) })
		}, changed{"spx", whyNotConfirmed, runstate.InSync}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.settings.ConfirmBy = time.Now().Add(10 * time.Minute)
				h.prepare = func(d *Daemon) { d.Load = h.expiring(d.Load, whyNotConfirmed) }
				h.start()
				time.Sleep(time.Minute)
				h.set(func() { test.then(h) })
				h.changed <- struct{}{}
				synctest.Wait()
				h.set(func() { h.steps = 3 })
				time.Sleep(11 * time.Minute)
				if diff := cmp.Diff(test.want, h.lastChange()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				h.stop()
			})
		})
	}
}

// expiring is a configuration that selects spx when the selection was not confirmed until its deadline.
func (h *host) expiring(load func() (Settings, error), why string) func() (Settings, error) {
	return func() (Settings, error) {
		s, err := load()
		if by := s.ConfirmBy; !by.IsZero() && !time.Now().Before(by) {
			s.Profile.Name, s.ConfirmBy, s.Expired = "spx", time.Time{}, why
		}
		return s, err
	}
}

// whyNotConfirmed is the reason of the run in these tests.
const whyNotConfirmed = "profile cpx was not confirmed within 10 min"

// changed is the profile of the state, and the reason of its last run.
type changed struct {
	Profile, Why string
	Phase        runstate.Phase
}

func (h *host) lastChange() changed {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := changed{Profile: h.saved.Profile, Phase: h.saved.Phase}
	if h.saved.Asked != nil {
		c.Why = h.saved.Asked.Why
	}
	return c
}

// A daemon that starts after the deadline selects the former profile immediately.
func TestDeadline_PassedBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.settings.ConfirmBy = time.Now().Add(10 * time.Minute)
		h.prepare = func(d *Daemon) { d.Load = h.expiring(d.Load, whyNotConfirmed) }
		h.start()
		time.Sleep(time.Minute)
		h.stop()
		time.Sleep(time.Hour)
		h.set(func() { h.steps = 3 })
		h.start()
		synctest.Wait()
		if diff := cmp.Diff(changed{"spx", whyNotConfirmed, runstate.InSync}, h.lastChange()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		h.stop()
	})
}
