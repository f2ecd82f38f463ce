package systemd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnits_Availability(t *testing.T) {
	p := startPID1(t)
	now, err := sinceBoot()
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]string{
		"up@0.service": "active/running", "up@1.service": "failed/failed", "up@2.service": "inactive/dead", "up@3.service": "inactive/dead",
		"up@4.service": "inactive/dead", "up@5.service": "inactive/dead", "up@6.service": "activating/start*", "other.service": "failed/failed", "multi-user.target": "active/active", "rescue.target": "inactive/dead",
	} {
		p.set(name, state, "")
		p.property(name, "ConditionResult", true)
		p.property(name, "ConditionTimestampMonotonic", uint64(1))
	}
	p.property("up@0.service", "ActiveEnterTimestampMonotonic", uint64((now - time.Hour).Microseconds()))
	p.property("up@2.service", "WantedBy", []string{"rescue.target", "multi-user.target"})
	p.property("up@3.service", "WantedBy", []string{"rescue.target"})
	p.property("up@4.service", "RequiredBy", []string{"multi-user.target"})
	p.property("up@4.service", "ConditionResult", false)
	p.property("up@5.service", "WantedBy", []string{"multi-user.target"})
	p.property("up@5.service", "Type", "oneshot")
	p.property("up@5.service", "RemainAfterExit", false)
	p.property("up@5.service", "InvocationID", []byte{1})
	c, ctx := p.dial()
	got, err := c.Units.Availability(ctx, []string{"up@*.service"})
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, a := range got {
		line := a.ID + " " + a.Active
		if a.ActiveFor >= time.Hour {
			line += " for an hour"
		}
		if a.Job {
			line += " job"
		}
		if a.WantedBy != "" {
			line += " wanted by " + a.WantedBy
		}
		text = append(text, line)
	}
	want := []string{"up@0.service active for an hour", "up@1.service failed", "up@2.service inactive wanted by multi-user.target",
		"up@3.service inactive", "up@4.service inactive", "up@5.service inactive", "up@6.service activating job"}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := c.Units.Availability(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("without patterns: got %v, %v, want none", none, err)
	}
}

func TestSince(t *testing.T) {
	p := startPID1(t)
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, at := range map[string]time.Time{"up.service": began, "never.service": time.UnixMicro(0)} {
		p.set(name, "active/running", "")
		p.property(name, "ActiveEnterTimestamp", uint64(at.UnixMicro()))
	}
	c, ctx := p.dial()
	got, err := c.Units.Since(ctx, []string{"up.service", "never.service"})
	if diff := cmp.Diff(map[string]time.Time{"up.service": began.Local()}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}
