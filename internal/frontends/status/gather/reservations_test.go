package gather

import (
	"os"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/reservation"
)

func TestReservationState_GuardOff(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	p := runstate.Partitions{Reservations: []runstate.Reservation{{Name: "vllm", Partitions: []string{"a-0"}, Exclusive: true}}}
	for _, err := range []error{
		os.MkdirAll(h.Runtime(), 0o755),
		runstate.PartitionsIn(h.Runtime()).Write(p),
		runstate.GuardIn(h.Runtime()).Write(runstate.Guard{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	why := func() string {
		t.Helper()
		r, err := reservationState(t.Context(), h, nil, false, false)
		if err != nil {
			t.Fatal(err)
		}
		return r.Guard.Why
	}
	if got := why(); got != "" {
		t.Errorf("reason before: got %q, want none", got)
	}
	if err := os.WriteFile(h.GuardOff(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := why()
	if got != "an administrator has switched the guard off" {
		t.Errorf("reason: got %q", got)
	}
	a := status.Evaluate(status.Account{
		Reserved: []status.Reserved{{Name: "vllm", Wants: 1, Partitions: []string{"a-0"}, Exclusive: true}},
		Guard:    status.Guard{Why: got},
	})
	if len(a.Problems) != 1 || a.Problems[0].Hint != "dcm guard on" {
		t.Errorf("problems: got %+v, want the hint to switch the guard on", a.Problems)
	}
}

func TestReservationState_UnitSlices(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	hosttest.Plant(t, h.Root, "etc/systemd/system/a.service", "[Service]\nSlice=ml.slice\n")
	cfg := &config.Config{Observers: []string{"a.service"}, Reservations: []config.Reservation{{Name: "a", Unit: "a.service", Partitions: 1, Source: "dcm.toml:3"}}}
	r, err := reservationState(t.Context(), h, cfg, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Wrong) != 1 {
		t.Errorf("problems of units: %v", r.Wrong)
	}
	if want := reservation.Elsewhere(h, cfg.Observers); len(want) != 1 || !slices.Equal(r.Notes, want) {
		t.Errorf("notes: %q, want %q", r.Notes, want)
	}
}

// Every state file that this version cannot read is named in the health, until its writer replaces it.
func TestReservationState_InvalidFiles(t *testing.T) {
	for _, file := range []string{"run/dcm/partitions.json", "run/dcm/state.json", "run/dcm/report.json", "run/dcm/guard.json", "run/dcm/discovered.json", "run/dcm/asked-7-1.json", "run/dcm/when-idle.json", "var/lib/dcm/gpus.json"} {
		for _, text := range []string{`{"version": 99}`, `{"version": 1, "x`, ""} {
			h := &host.Host{Root: t.TempDir()}
			hosttest.Plant(t, h.Root, file, text)
			r, err := reservationState(t.Context(), h, nil, false, false)
			if err != nil {
				t.Fatal(err)
			}
			a := status.Evaluate(status.Account{Problems: r.Wrong})
			if a.Health.State != status.Unseen || len(a.Problems) != 1 || !strings.Contains(a.Problems[0].Text, file) || a.Problems[0].Hint == "" {
				t.Errorf("%s with %q: health %s, problems %+v", file, text, a.Health.State, a.Problems)
			}
		}
	}
}
