package daemon

import (
	"errors"
	"testing"

	"dcm/internal/engine/runstate"
)

func TestReboot(t *testing.T) {
	inUse := runstate.Error{Text: "cannot unload amdgpu", Reboot: true}
	const bounce = "reset:a.service restart:dcm-apply.service"
	for _, test := range []struct {
		name    string
		failure runstate.Error
		given   func(*host)
		phase   runstate.Phase
		events  string
		text    string
	}{
		{"once", inUse, func(*host) {}, runstate.Rebooting, bounce + " reboot:cpx",
			"cannot unload amdgpu; rebooting the host"},
		{"not if it is not allowed", inUse, func(h *host) { h.settings.Reboot = false }, runstate.Stuck, bounce, "cannot unload amdgpu"},
		{"not if the last reboot did not help", inUse, func(h *host) { h.rebootErr = errors.New("the last reboot did not help") }, runstate.Stuck, bounce + " reboot:cpx",
			"cannot unload amdgpu; the last reboot did not help"},
		{"not for other failures", runstate.Error{Text: "no such mode"}, func(*host) {}, runstate.Stuck, bounce, "no such mode"},
	} {
		for _, started := range []bool{true, false} {
			name := test.name + ", at start"
			if started {
				name = test.name + ", later"
			}
			t.Run(name, func(t *testing.T) {
				h := newHost(t)
				h.settings.Reboot = true
				test.given(h)
				fail := func() { h.steps, h.run = 3, failing(test.failure) }
				if !started {
					fail()
				}
				ended := h.start()
				if started {
					h.until("in sync", phase(runstate.InSync))
					h.tick()
					h.did()
					h.set(fail)
					h.changed <- struct{}{}
				}
				s := h.until("a verdict", phase(test.phase))
				if s.Error == nil || s.Error.Text != test.text {
					t.Errorf("error %+v, want %q", s.Error, test.text)
				}
				if started {
					h.tick()
				} else if err := <-ended; err == nil || err.Error() != test.text {
					t.Errorf("Run returned %v", err)
				}
				if got := h.did(); got != test.events {
					t.Errorf("events %q, want %q", got, test.events)
				}
			})
		}
	}
}

// While a process has a GPU open, the host is not rebooted, even if a reboot would resolve the
// failure.
func TestReboot_NotWhileInUse(t *testing.T) {
	h := inSync(t)
	h.set(func() {
		h.settings.Reboot = true
		h.steps, h.run = 3, failing(runstate.Error{Text: "no", Reboot: true})
		h.last = nil
	})
	h.set(func() { h.blocking = []runstate.Holder{{PID: 7, Command: "python3"}} })
	h.changed <- struct{}{}
	h.until("waiting", phase(runstate.Waiting))
	h.tick()
	if got := h.did(); got != "" {
		t.Errorf("events %q, want none", got)
	}
}

func TestReboot_ReachedIsRecorded(t *testing.T) {
	h := inSync(t)
	h.set(func() {
		if h.reached != "cpx" {
			t.Errorf("profile recorded as reached: %q", h.reached)
		}
	})
}
