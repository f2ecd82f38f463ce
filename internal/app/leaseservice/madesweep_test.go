package leaseservice

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// fakeMade are the units of a test. It is a [madeUnits].
type fakeMade struct {
	states     map[string]systemd.Unit
	dependents []string
	calls      []string
}

func (f *fakeMade) Dependents(context.Context, string) ([]string, error) {
	return slices.Clone(f.dependents), nil
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

// A mode is kept for the idle time after the last lease, and at least for the dwell time. If the switch
// back has failed, it is repeated.
func TestSweep_Mode(t *testing.T) {
	n := made.Name{GPU: "0000:05:00.0", Profile: "CPX", Rest: "SPX"}
	const user = "dcm-lease-1000-4f1c09aa.scope"
	active, inactive := systemd.Unit{Active: "active"}, systemd.Unit{Active: "inactive"}
	for _, tt := range []struct {
		name              string
		lease, own, keeps systemd.Unit
		dwell             time.Duration
		after             time.Duration // until the first call; 0: no call is made
		want              string
	}{
		{name: "lease", lease: active, own: active, keeps: active},
		{name: "lease is being started", lease: systemd.Unit{Active: "inactive", Job: true}, own: active, keeps: active},
		{name: "idle", lease: inactive, own: active, keeps: active, after: time.Minute, want: "stop " + n.Keeper()},
		{name: "idle after a short lease", lease: inactive, own: active, keeps: active, dwell: time.Hour, after: time.Hour, want: "stop " + n.Keeper()},
		{name: "being switched back", lease: inactive, own: systemd.Unit{Active: "deactivating"}, keeps: inactive},
		{name: "not kept", lease: inactive, own: active, keeps: inactive, after: makeGraceDelay, want: "stop " + n.Unit()},
		{name: "switch back failed", lease: inactive, own: inactive, keeps: inactive, after: makeGraceDelay, want: "start " + n.Unit()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, now := t.TempDir(), time.Unix(1000, 0)
			claim := filepath.Join(dir, n.String())
			if err := errors.Join(os.Mkdir(claim, 0o755), os.Chtimes(claim, now, now)); err != nil {
				t.Fatal(err)
			}
			units := &fakeMade{dependents: []string{n.Keeper(), user}, states: map[string]systemd.Unit{user: tt.lease, n.Unit(): tt.own, n.Keeper(): tt.keeps}}
			s := sweeper{
				claims: made.Claims{Dir: dir}, units: units, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler),
				wanted: func(made.Name) bool { return true },
				times:  func() (idle, dwell time.Duration) { return time.Minute, tt.dwell },
				given:  func(partition.Address) time.Time { return time.Time{} },
			}
			sweep := func(at time.Duration, want ...string) {
				t.Helper()
				now, units.calls = time.Unix(1000, 0).Add(at), nil
				if any, err := s.sweep(t.Context()); !any || err != nil {
					t.Fatalf("sweep: %t, %v", any, err)
				}
				if !slices.Equal(units.calls, want) {
					t.Errorf("after %s: got %q, want %q", at, units.calls, want)
				}
			}
			sweep(0)
			if tt.after == 0 {
				sweep(24 * time.Hour)
				return
			}
			sweep(tt.after - 1)
			sweep(tt.after, tt.want)
			sweep(tt.after + 1)
		})
	}
}

// A lease during the idle time begins it again.
func TestSweep_ModeUsedAgain(t *testing.T) {
	n := made.Name{GPU: "0000:05:00.0", Profile: "CPX", Rest: "SPX"}
	const user = "dcm-lease-1000-4f1c09aa.scope"
	dir, now := t.TempDir(), time.Unix(1000, 0)
	if err := os.Mkdir(filepath.Join(dir, n.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, n.String()), now, now); err != nil {
		t.Fatal(err)
	}
	active := systemd.Unit{Active: "active"}
	units := &fakeMade{states: map[string]systemd.Unit{user: active, n.Unit(): active, n.Keeper(): active}}
	var given time.Time
	s := sweeper{
		claims: made.Claims{Dir: dir}, units: units, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler),
		wanted: func(made.Name) bool { return true },
		times:  func() (idle, dwell time.Duration) { return time.Minute, 0 }, given: func(partition.Address) time.Time { return given },
	}
	for _, step := range []struct {
		after time.Duration
		given time.Duration // a lease that no reader has seen; 0: none
		used  bool
		calls int
	}{
		{after: 0}, {after: 40 * time.Second, used: true}, {after: 70 * time.Second},
		{after: 120 * time.Second, given: 115 * time.Second}, {after: 179 * time.Second}, {after: 180 * time.Second, calls: 1},
	} {
		now, units.dependents = time.Unix(1000, 0).Add(step.after), nil
		if step.given > 0 {
			given = time.Unix(1000, 0).Add(step.given)
		}
		if step.used {
			units.dependents = []string{user}
		}
		if _, err := s.sweep(t.Context()); err != nil || len(units.calls) != step.calls {
			t.Errorf("after %s: got %q, %v, want %d calls", step.after, units.calls, err, step.calls)
		}
	}
}
