package leaseservice

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dcm/internal/gpu/made"
	"dcm/internal/linux/systemd"
)

// fakeMade are the units of a test. It is a [madeUnits].
type fakeMade struct {
	states map[string]systemd.Unit
	calls  []string
}

func (f *fakeMade) States(context.Context, []string) (map[string]systemd.Unit, error) {
	return f.states, nil
}

func (f *fakeMade) Start(_ context.Context, unit string) error {
	f.calls = append(f.calls, "start "+unit)
	return nil
}

func (f *fakeMade) Stop(_ context.Context, unit string) error {
	f.calls = append(f.calls, "stop "+unit)
	return nil
}

func TestSweep_GracePeriod(t *testing.T) {
	for _, holder := range []string{"dcm-lease-1000-4f1c09aa.scope", "vllm@a.service"} {
		t.Run(holder, func(t *testing.T) { gracePeriod(t, holder) })
	}
}

func gracePeriod(t *testing.T, holder string) {
	n := made.Name{Lease: holder, GPU: "0000:41:00.0", Profile: "3g.40gb", Start: 4}
	active, starting := systemd.Unit{Active: "active"}, systemd.Unit{Active: "activating"}
	for _, tt := range []struct {
		name       string
		lease, own systemd.Unit
		changed    bool     // the reservation has another profile now
		want       []string // after the grace period
	}{
		{"lease", active, active, false, nil},
		{"lease is being started", systemd.Unit{Active: "inactive", Job: true}, starting, false, nil},
		{"lease ends", systemd.Unit{Active: "deactivating"}, active, false, nil},
		{"instance is being destroyed", systemd.Unit{Active: "inactive"}, systemd.Unit{Active: "deactivating"}, false, nil},
		{"restarted after a delay", starting, active, false, nil},
		{"changed reservation", active, active, true, []string{"stop " + n.Unit()}},
		{"no lease", systemd.Unit{Active: "inactive"}, active, false, []string{"stop " + n.Unit()}},
		{"stop failed", systemd.Unit{Active: "inactive"}, systemd.Unit{Active: "inactive"}, false, []string{"start " + n.Unit()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, now := t.TempDir(), time.Unix(1000, 0)
			if err := os.Mkdir(filepath.Join(dir, n.String()), 0o755); err != nil {
				t.Fatal(err)
			}
			units := &fakeMade{states: map[string]systemd.Unit{n.Lease: tt.lease, n.Unit(): tt.own}}
			s := sweeper{claims: made.Claims{Dir: dir}, units: units, wanted: func(made.Name) bool { return !tt.changed }, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
			sweep := func() []string {
				t.Helper()
				units.calls = nil
				if any, err := s.sweep(t.Context()); !any || err != nil {
					t.Fatalf("sweep: %t, %v", any, err)
				}
				return units.calls
			}
			if got := sweep(); got != nil {
				t.Errorf("at first: got %q, want nothing", got)
			}
			now = now.Add(makeGraceDelay)
			if got := sweep(); !slices.Equal(got, tt.want) {
				t.Errorf("after the grace period: got %q, want %q", got, tt.want)
			}
			if got := sweep(); got != nil {
				t.Errorf("immediately afterwards: got %q, want nothing", got)
			}
			now = now.Add(2 * makeGraceDelay)
			if got := sweep(); !slices.Equal(got, tt.want) {
				t.Errorf("later: got %q, want %q", got, tt.want)
			}
		})
	}
}
