package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/linux/unitname"
)

func TestOrderingPath(t *testing.T) {
	p := startPID1(t)
	for name, after := range map[string][]string{
		unitname.Apply: {"sysinit.target", "x.target"}, "sysinit.target": {"local-fs.target"}, "local-fs.target": nil,
		"x.target": {"sysinit.target", "client.service"}, "client.service": {unitname.Apply}, "other.service": {unitname.Apply},
	} {
		p.set(name, "active/active", "")
		p.property(name, "After", after)
	}
	c, ctx := p.dial()
	got, err := c.Dependencies.OrderingPath(ctx, unitname.Apply, []string{"other.service", "client.service"})
	if diff := cmp.Diff([]string{unitname.Apply, "x.target", "client.service"}, got); diff != "" || err != nil {
		t.Errorf("path (-want +got), %v:\n%s", err, diff)
	}
	if got, err := c.Dependencies.OrderingPath(ctx, unitname.Apply, []string{"other.service"}); got != nil || err != nil {
		t.Errorf("path %v, %v, want none", got, err)
	}
	// PID 1 shows no After= for the Before= of a unit that it has not loaded.
	p.property("other.service", "Before", []string{"sysinit.target"})
	got, err = c.Dependencies.OrderingPath(ctx, unitname.Apply, []string{"other.service"})
	if diff := cmp.Diff([]string{unitname.Apply, "sysinit.target", "other.service"}, got); diff != "" || err != nil {
		t.Errorf("path by the unit's own Before= (-want +got), %v:\n%s", err, diff)
	}
}

func TestOrderedAfter(t *testing.T) {
	p := startPID1(t)
	for name, after := range map[string][]string{
		"client.service": {unitname.Apply, "basic.target"}, "after.service": {"client.service"}, "loop.service": {"loop2.service"}, "loop2.service": {"loop.service"},
		"early.service": {"basic.target"}, "target.service": {"multi-user.target"}, "multi-user.target": {unitname.Apply},
	} {
		p.set(name, "active/active", "")
		p.property(name, "After", after)
		p.property(name, "FreezerState", "running")
	}
	p.property("loop.service", "FreezerState", "frozen-by-parent")
	c, ctx := p.dial()
	others := []string{"client.service", "after.service", "early.service", "loop.service", "loop2.service", "target.service"}
	for unit, want := range map[string]bool{"client.service": true, "after.service": true, "early.service": false, "loop.service": false, "target.service": false} {
		if got, err := c.Dependencies.OrderedAfter(ctx, unit, unitname.Apply, others); got != want || err != nil {
			t.Errorf("%s: after %t, %v", unit, got, err)
		}
		if got, err := c.Units.Frozen(ctx, unit); got != (unit == "loop.service") || err != nil {
			t.Errorf("%s is frozen: %t, %v", unit, got, err)
		}
	}
}
