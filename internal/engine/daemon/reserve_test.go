package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

type hinted struct{ error }

func (hinted) Hint() string { return "take it away" }

func TestReserve_RefusalRestartsNothing(t *testing.T) {
	h := newHost(t)
	h.due, h.notDue = true, hinted{errors.New("a.service has a slice of its own")}
	h.start()
	s := h.until("the profile", phase(runstate.InSync))
	if s.Error == nil || s.Error.Text != "a.service has a slice of its own" || s.Error.Hint != "take it away" {
		t.Errorf("error is %+v", s.Error)
	}
	if did := h.did(); strings.Contains(did, "restart:") {
		t.Errorf("events %s", did)
	}
}

type held struct{ hinted }

func (held) Holders() []runstate.Holder { return []runstate.Holder{{PID: 7}} }

// If the partitions of a reservation are leased, the daemon chooses again when the lease ends.
func TestReserve_RetriedWhenLeaseEnds(t *testing.T) {
	h := newHost(t)
	h.due, h.notDue = true, held{hinted{errors.New("leases have the others")}}
	h.choice = systemd.Unit{Name: unitname.Reserve, Load: "loaded", Active: "active", Invocation: "2"}
	h.start()
	s := h.until("the profile", phase(runstate.InSync))
	if s.Error == nil || s.Error.Text != "leases have the others" || !s.Error.Unmet || len(s.Holders) != 1 || strings.Contains(h.did(), "restart:") {
		t.Errorf("error is %+v, %+v; events %s", s.Error, s.Holders, h.did())
	}
	h.set(func() { h.notDue = nil })
	close(h.gone)
	h.until("the choice", func(s runstate.State) bool { return s.Error == nil && len(s.Holders) == 0 })
	if did := h.did(); !strings.Contains(did, "restart:dcm-reserve.service") {
		t.Errorf("events %s", did)
	}
}

// If only reservations change, the daemon restarts dcm-reserve.service, not dcm-apply.service.
func TestReserve_RestartsOnlyReserve(t *testing.T) {
	for _, tt := range []struct {
		name    string
		steps   int
		choice  string // the state of dcm-reserve.service after the run
		events  string
		errText string
	}{
		{"all met", 0, "active", "restart:dcm-reserve.service", ""},
		{"too few partitions", 0, "failed", "restart:dcm-reserve.service", "not all reservations can be met"},
		{"the GPUs are to be changed anyway", 1, "active", "restart:dcm-apply.service", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.due, h.steps = true, tt.steps
			h.choice = systemd.Unit{Name: unitname.Reserve, Load: "loaded", Active: tt.choice, Invocation: "2", Result: "exit-code", Failed: systemd.Command{Status: exitcode.Permanent}}
			h.start()
			s := h.until("the profile", phase(runstate.InSync))
			errText := ""
			if s.Error != nil {
				errText = s.Error.Text
			}
			if errText != tt.errText {
				t.Errorf("error is %q, want %q", errText, tt.errText)
			}
			var restarts []string
			for e := range strings.FieldsSeq(h.did()) {
				if strings.HasPrefix(e, "restart:") {
					restarts = append(restarts, e)
				}
			}
			if got := strings.Join(restarts, " "); got != tt.events {
				t.Errorf("restarted are %q, want %q", got, tt.events)
			}
		})
	}
}

// If dcm-reserve.service is killed, the daemon runs it again, and starts the units that the first
// run stopped, as for dcm-apply.service.
func TestReserve_FailedRunIsRepeated(t *testing.T) {
	for _, tt := range []struct {
		name    string
		unit    systemd.Unit
		errText string
	}{
		{"killed", systemd.Unit{Result: "signal", Failed: systemd.Command{Directive: "ExecStart", Path: "/p", Signal: true, Status: 9}},
			"the partitions of the reservations were not chosen: dcm-reserve.service failed: ExecStart=/p: killed by signal 9"},
		{"timeout", systemd.Unit{Result: "timeout"},
			"the partitions of the reservations were not chosen: dcm-reserve.service failed: it took longer than its TimeoutStartSec= and was stopped"},
		{"no space", systemd.Unit{Result: "exit-code", Failed: systemd.Command{Directive: "ExecStart", Path: "/p", Status: exitcode.Transient}},
			"the partitions of the reservations were not chosen: dcm-reserve.service failed: ExecStart=/p: exit status 75"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.tick()
			h.did()
			h.set(func() {
				h.due, h.depend = true, []string{"wide.service"}
				h.units["wide.service"] = systemd.Unit{Name: "wide.service", Load: "loaded", Active: "active", Invocation: "old"}
				h.choose = func(h *host) systemd.Unit {
					h.units["wide.service"] = systemd.Unit{Name: "wide.service", Load: "loaded", Active: "inactive", Invocation: "old"}
					h.ends = map[string]systemd.End{"wide.service": {Skipped: true}}
					h.depend, h.choose = nil, nil
					tt.unit.Name, tt.unit.Active = unitname.Reserve, "failed"
					h.units[unitname.Reserve] = tt.unit
					return tt.unit
				}
				h.choice = systemd.Unit{Name: unitname.Reserve, Active: "active", Result: "success"}
			})
			h.changed <- struct{}{}
			s := h.until("the failure", func(s runstate.State) bool { return s.Error != nil })
			if s.Phase != runstate.InSync || s.Error.Text != tt.errText || !s.Error.Transient || s.Retry.IsZero() || len(s.Pending) != 1 {
				t.Errorf("the state is %s, %+v, retry %s, pending starts %q", s.Phase, s.Error, s.Retry, s.Pending.Units())
			}
			s = h.until("the choice", func(s runstate.State) bool { return s.Retry.IsZero() && len(s.Pending) == 0 })
			if s.Phase != runstate.InSync {
				t.Errorf("the state is %s, %+v", s.Phase, s.Error)
			}
			h.tick()
			want := "reset:wide.service restart:dcm-reserve.service restart:dcm-reserve.service reset:wide.service start:wide.service"
			if got := strings.TrimSuffix(h.did(), " reset:dcm-reserve.service"); got != want {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
}

// If the choice of partitions cannot be saved, no unit is stopped.
func TestReserve_NothingIsStoppedWithoutSpace(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() {
		h.due, h.saveErr = true, errors.New("no space left on device")
		h.choice = systemd.Unit{Name: unitname.Reserve, Active: "active", Result: "success"}
	})
	h.changed <- struct{}{}
	s := h.until("the failure", func(s runstate.State) bool { return s.Error != nil })
	if s.Phase != runstate.InSync || !strings.Contains(s.Error.Text, "no space left") {
		t.Errorf("the state is %s, %+v", s.Phase, s.Error)
	}
	if did := h.did(); did != "" {
		t.Errorf("events %q, want none", did)
	}
	h.set(func() { h.saveErr = nil })
	h.until("the choice", func(s runstate.State) bool { return s.Error == nil && s.Tries == 0 })
	if did := h.did(); did != "restart:dcm-reserve.service" {
		t.Errorf("events %q, want one restart", did)
	}
}

// The failed state of dcm-reserve.service is reset when no reservation needs a choice any more.
func TestReserve_FailureIsCleared(t *testing.T) {
	for _, tt := range []struct {
		name  string
		unmet bool
		want  string
	}{{"all met", false, "reset:dcm-reserve.service READY"}, {"one has no partitions", true, "READY"}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.unmet = tt.unmet
			h.units[unitname.Reserve] = systemd.Unit{Name: unitname.Reserve, Load: "loaded", Active: "failed"}
			h.start()
			h.until("in sync", phase(runstate.InSync))
			h.tick()
			if did := h.did(); did != tt.want {
				t.Errorf("events %q, want %q", did, tt.want)
			}
		})
	}
}

// A socket unit failed during a change, because its service failed too often without the driver.
// The daemon starts the socket together with the clients.
func TestPending_TriggerOfClient(t *testing.T) {
	h := newHost(t)
	h.triggers = []string{"a.socket"}
	h.units["a.socket"] = systemd.Unit{Name: "a.socket", Load: "loaded", Active: "active", Invocation: "s"}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	h.did()
	h.set(func() {
		h.steps = 8
		h.run = func(h *host) (systemd.Unit, *runstate.Run, error) {
			h.units["a.socket"] = systemd.Unit{Name: "a.socket", Load: "loaded", Active: "failed", Result: "service-start-limit-hit", Invocation: "s"}
			h.run = succeed
			return failing(runstate.Error{Text: "killed", Transient: true})(h)
		}
	})
	h.changed <- struct{}{}
	s := h.until("waiting", phase(runstate.Waiting))
	if !slices.Contains(s.Pending.Units(), "a.socket") {
		t.Errorf("pending starts are %q", s.Pending.Units())
	}
	if i := slices.IndexFunc(s.Clients, func(c runstate.Client) bool { return c.Unit == "a.socket" }); i < 0 || s.Clients[i].Back {
		t.Errorf("the failure of the socket is not reported: %+v", s.Clients)
	}
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	if did := h.did(); !strings.HasSuffix(did, "reset:a.socket start:a.socket") {
		t.Errorf("events %q, want a start of the socket", did)
	}
}
