package leaseservice

import (
	"testing"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
)

func TestUntilNote(t *testing.T) {
	now := time.Date(2026, 3, 1, 23, 50, 0, 0, time.Local)
	for _, tt := range []struct {
		lease lease.Lease
		want  string
	}{
		{lease.Lease{Time: 28*time.Minute + 22*time.Second}, "lease until 00:18:22"},
		{lease.Lease{Time: time.Hour, TimeBy: "max-time in [leases]"}, "lease until 00:50:00 (max-time in [leases])"},
		{lease.Lease{Time: 25 * time.Hour}, "lease until 2026-03-03 00:50:00"},
	} {
		if got := untilNote(now, tt.lease); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.lease, got, tt.want)
		}
	}
}

func TestLife_Reason(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const unit = "dcm-lease-7-4f1c09aa.scope"
	until := now.Add(-time.Second)
	for _, tt := range []struct {
		name   string
		lease  status.Lease
		change func(*lifetimes)
		want   string
	}{
		{"no limit", status.Lease{}, func(*lifetimes) {}, "its last process has ended"},
		{"limit over", status.Lease{Until: &until}, func(*lifetimes) {}, "its time limit is over"},
		{"extended", status.Lease{Until: &until}, func(f *lifetimes) { f.extended(unit, 2*time.Hour) }, "its last process has ended"},
		{"released", status.Lease{}, func(f *lifetimes) { f.released(unit, "root") }, "released by root"},
		{"release failed", status.Lease{}, func(f *lifetimes) { f.released(unit, "root"); f.released(unit, "") }, "its last process has ended"},
		{"other released", status.Lease{}, func(f *lifetimes) { f.released("dcm-lease-7-00000000.scope", "root") }, "its last process has ended"},
	} {
		f := &lifetimes{live: map[string]life{unit: {Lease: tt.lease, began: now.Add(-time.Hour)}}}
		tt.change(f)
		if got := f.live[unit].reason(now); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
