package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/unitname"
)

func TestWaitsForFollowsTheOrder(t *testing.T) {
	p := startPID1(t)
	for name, after := range map[string][]string{
		unitname.Apply: {"sysinit.target", "x.target"}, "sysinit.target": {"local-fs.target"}, "local-fs.target": nil,
		"x.target": {"sysinit.target", "client.service"}, "client.service": {unitname.Apply}, "other.service": {unitname.Apply},
	} {
		p.set(name, "active/active", "")
		p.property(name, "After", after)
	}
	c, ctx := p.dial()
	got, err := c.WaitsFor(ctx, unitname.Apply, []string{"other.service", "client.service"})
	if diff := cmp.Diff([]string{unitname.Apply, "x.target", "client.service"}, got); diff != "" || err != nil {
		t.Errorf("way (-want +got), %v:\n%s", err, diff)
	}
	if got, err := c.WaitsFor(ctx, unitname.Apply, []string{"other.service"}); got != nil || err != nil {
		t.Errorf("way %v, %v, want none", got, err)
	}
}
