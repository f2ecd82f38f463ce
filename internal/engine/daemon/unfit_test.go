package daemon

import (
	"fmt"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

func TestBlockers_Unrestartable(t *testing.T) {
	for load, want := range map[string]string{
		"masked":      "systemd cannot restart a.service, a client: it is masked",
		"not-found":   "systemd cannot restart a.service, a client: its unit file is gone",
		"bad-setting": "systemd cannot restart a.service, a client: its unit file cannot be used (bad-setting)",
	} {
		h := newHost(t)
		h.steps, h.blocking = 3, []runstate.Holder{{PID: 7, Command: "a", Unit: "a.service", Devices: []string{"/dev/kfd"}}}
		h.units["a.service"] = systemd.Unit{Name: "a.service", Load: load, Active: "active"}
		h.units["b.service"] = systemd.Unit{Name: "b.service", Load: "loaded", Active: "active"}
		if err := <-h.start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run returned %v, want %q", err, want)
		}
		if s := h.left(); s.Error == nil || !strings.Contains(s.Error.Hint, "unit file") || strings.Contains(s.Error.Hint, "list") {
			t.Errorf("%s: the hint is %+v", load, s.Error)
		}
		if got := h.did(); got != "" {
			t.Errorf("%s: events %q, want none", load, got)
		}
	}
}

// A client that is frozen, and a dependent that would be back too early.
func TestBlockers_RestartWouldNotHelp(t *testing.T) {
	for unit, want := range map[string][2]string{
		"frozen.service": {"systemd cannot restart frozen.service: it is frozen", "systemctl thaw frozen.service; the profile stays selected"},
		"early.service":  {"early.service depends on a client and is restarted with it, but is not ordered after it", "list early.service under [clients], or"},
		"late.service":   {},
	} {
		h := newHost(t)
		h.steps, h.blocking = 3, []runstate.Holder{
			{PID: 7, Command: "a", Unit: unit, Devices: []string{"/dev/kfd"}}, {PID: 8, Command: "a", Unit: unit, Devices: []string{"/dev/kfd"}},
			{PID: 9, Command: "b", Unit: "a.service", Devices: []string{"/dev/kfd"}},
		}
		h.depend = []string{unit}
		h.units[unit] = systemd.Unit{Name: unit, Load: "loaded", Active: "active"}
		ended := h.start()
		if want[0] == "" {
			h.until("in sync", phase(runstate.InSync))
			continue
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), want[0]) {
			t.Errorf("Run returned %v, want %q", err, want[0])
		}
		if s := h.left(); s.Error == nil || !strings.HasPrefix(s.Error.Hint, want[1]) || len(s.Holders) != 2 {
			t.Errorf("%s: the hint is %+v, the holders %v", unit, s.Error, s.Holders)
		}
		if got := h.did(); got != "" {
			t.Errorf("%s: events %q, want none", unit, got)
		}
	}
}

func TestBlockers_Alias(t *testing.T) {
	h := newHost(t)
	h.steps, h.blocking = 3, []runstate.Holder{{PID: 7, Command: "a", Unit: "real.service", Devices: []string{"/dev/kfd"}}}
	h.units["a.service"] = systemd.Unit{Name: "a.service", ID: "real.service", Load: "loaded", Active: "active"}
	h.settings.Order.Clients = append(h.settings.Order.Clients, "real.service")
	h.generated = h.settings.Order.Clients
	h.units["real.service"] = systemd.Unit{Name: "real.service", Load: "loaded", Active: "active"}
	h.start()
	h.until("in sync", phase(runstate.InSync))
	h.tick()
	if got, want := h.did(), "reset:real.service restart:dcm-apply.service READY"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestDescribeCycle(t *testing.T) {
	h := newHost(t)
	h.steps = 3
	h.run = func(*host) (systemd.Unit, *runstate.Run, error) {
		return systemd.Unit{}, nil, fmt.Errorf("cannot restart: %w", systemd.ErrCyclic)
	}
	want := "dcm-apply.service is ordered after x.target is ordered after a.service, a client"
	if err := <-h.start(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Run returned %v, want %q", err, want)
	}
	if s := h.left(); pendingIn(s)["a.service"].Invocation != "" {
		t.Errorf("pending starts are %v, although nothing was stopped", s.Pending.Units())
	}
}
