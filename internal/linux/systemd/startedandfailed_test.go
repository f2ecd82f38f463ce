package systemd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnits_StartedAndFailed(t *testing.T) {
	p := startPID1(t)
	uptime, err := sinceBoot()
	if err != nil {
		t.Fatal(err)
	}
	for name, ago := range map[string]time.Duration{"before.service": time.Hour, "b.service": time.Minute, "a.service": 2 * time.Minute, "after.service": time.Second, "job.timer": time.Minute} {
		p.set(name, "failed/failed", "")
		p.property(name, startedAt, uint64((uptime - ago).Microseconds()))
	}
	p.set("up.service", "active/running", "")
	p.property("up.service", startedAt, uint64((uptime - time.Minute).Microseconds()))
	p.set("never.service", "failed/failed", "")
	p.property("never.service", startedAt, uint64(0))
	c, ctx := p.dial()
	now := time.Now()
	got, err := c.Units.StartedAndFailed(ctx, now.Add(-3*time.Minute), now.Add(-30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.service", "b.service"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
