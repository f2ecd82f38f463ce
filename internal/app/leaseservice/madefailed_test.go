package leaseservice

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"dcm/internal/exitcode"
	"dcm/internal/gpu/made"
	"dcm/internal/linux/systemd"
)

// fakeFailed are the failed units of a test. It is a [failedUnits].
type fakeFailed []systemd.Unit

func (f *fakeFailed) Failed(context.Context) ([]systemd.Unit, error) { return slices.Clone(*f), nil }

func (f *fakeFailed) ResetFailed(_ context.Context, unit string) error {
	*f = slices.DeleteFunc(*f, func(u systemd.Unit) bool { return u.Name == unit })
	return nil
}

func TestFailures_Cleared(t *testing.T) {
	service := made.Service{Unit: "llm@a.service", Profile: "3g.40gb"}.MakeUnit()
	lease := made.Name{Lease: "dcm-lease-0-4f1c09aa.scope", GPU: "0000:41:00.0", Profile: "3g.40gb", Start: 4}.Unit()
	panicked := systemd.Command{Directive: "ExecStart", Status: 2}
	refused := systemd.Command{Directive: "ExecStart", Status: exitcode.Transient}
	for _, tt := range []struct {
		name    string
		unit    string
		command systemd.Command
		removed bool          // the configuration has no such reservation
		after   time.Duration // -1: never
	}{
		{"panic for a service", service, panicked, false, -1},
		{"no room for a service", service, refused, false, -1},
		{"former reservation", service, panicked, true, 0},
		{"panic for a lease", lease, panicked, false, failureTTL},
		{"killed for a lease", lease, systemd.Command{Directive: "ExecStart", Signal: true, Status: 9}, false, failureTTL},
		{"no room for a lease", lease, refused, false, 0},
		{"instance in use", lease, systemd.Command{Directive: "ExecStopPost", Status: exitcode.Transient}, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now, changes := time.Unix(1000, 0), 0
			units := &fakeFailed{{Name: tt.unit, Active: "failed", Failed: tt.command}}
			f := failures{units: units, wanted: func(made.Name) bool { return !tt.removed }, changed: func() { changes++ }, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
			for _, at := range []time.Duration{0, failureTTL - time.Second, failureTTL, 24 * time.Hour} {
				now = time.Unix(1000, 0).Add(at)
				next, err := f.sweep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if kept := tt.after < 0 || at < tt.after; kept != (len(*units) == 1) || kept != f.any() {
					t.Errorf("after %s: failed units %v, want kept %t", at, *units, kept)
				}
				if due := tt.after > 0 && at < tt.after; due != !next.IsZero() || due && !next.Equal(time.Unix(1000, 0).Add(tt.after)) {
					t.Errorf("after %s: next %v", at, next)
				}
			}
			if want := map[bool]int{true: 1, false: 0}[tt.after < 0] + map[bool]int{true: 2, false: 0}[tt.after > 0]; changes != want {
				t.Errorf("changes of the status: got %d, want %d", changes, want)
			}
		})
	}
}
