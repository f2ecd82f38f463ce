package daemon

import (
	"errors"
	"strings"
	"testing"

	"dcm/internal/report"
	"dcm/internal/systemd"
	"dcm/internal/unitname"
)

type cured struct{ error }

func (cured) Cure() string { return "take it away" }

// Nobody is stopped for what is refused.
func TestReservationsThatAreRefusedRestartNothing(t *testing.T) {
	h := newHost(t)
	h.due, h.notDue = true, cured{errors.New("a.service has a slice of its own")}
	h.start()
	s := h.until("the profile", phase(report.InSync))
	if s.Error == nil || s.Error.Text != "a.service has a slice of its own" || s.Error.Cure != "take it away" {
		t.Errorf("told is %+v", s.Error)
	}
	if did := h.did(); strings.Contains(did, "restart:") {
		t.Errorf("it did %s", did)
	}
}

type held struct{ cured }

func (held) Holders() []report.Holder { return []report.Holder{{PID: 7}} }

// What waits for a lease is looked at again at its end.
func TestReservationsThatWaitForALeaseGoOnWithItsEnd(t *testing.T) {
	h := newHost(t)
	h.due, h.notDue = true, held{cured{errors.New("leases have the others")}}
	h.choice = systemd.Unit{Name: unitname.Reserve, Load: "loaded", Active: "active", Invocation: "2"}
	h.start()
	s := h.until("the profile", phase(report.InSync))
	if s.Error == nil || s.Error.Text != "leases have the others" || len(s.Holders) != 1 || strings.Contains(h.did(), "restart:") {
		t.Errorf("told is %+v, %+v; it did %s", s.Error, s.Holders, h.did())
	}
	h.set(func() { h.notDue = nil })
	close(h.gone)
	h.until("the choice", func(s report.State) bool { return s.Error == nil && len(s.Holders) == 0 })
	if did := h.did(); !strings.Contains(did, "restart:dcm-reserve.service") {
		t.Errorf("it did %s", did)
	}
}

// A change of reservations alone restarts the unit that chooses, and not the one that
// changes GPUs.
func TestReservationsAloneRestartWhatChooses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		steps  int
		choice string // how the unit that chooses is then
		events string
		told   string
	}{
		{"all met", 0, "active", "restart:dcm-reserve.service", ""},
		{"too few partitions", 0, "failed", "restart:dcm-reserve.service", "not all reservations can be met"},
		{"the GPUs are to be changed anyway", 1, "active", "restart:dcm-apply.service", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.due, h.steps = true, tt.steps
			h.choice = systemd.Unit{Name: unitname.Reserve, Load: "loaded", Active: tt.choice, Invocation: "2"}
			h.start()
			s := h.until("the profile", phase(report.InSync))
			told := ""
			if s.Error != nil {
				told = s.Error.Text
			}
			if told != tt.told {
				t.Errorf("told is %q, want %q", told, tt.told)
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
