package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnd(t *testing.T) {
	p := startPID1(t)
	p.set("a.service", "inactive/dead", "02")
	for property, value := range map[string]any{
		"InactiveExitTimestampMonotonic": uint64(5), "ActiveExitTimestampMonotonic": uint64(8), "ConditionTimestampMonotonic": uint64(9),
		"ConditionResult": false, "AssertTimestampMonotonic": uint64(4), "AssertResult": true,
		"ExecMainExitTimestampMonotonic": uint64(7), "RemainAfterExit": false,
		"InactiveEnterTimestampMonotonic": uint64(9), "Requires": []string{"r.service"}, "BindsTo": []string{"b.service"}, "ConsistsOf": []string{"c.service"},
	} {
		p.property("a.service", property, value)
	}
	c, ctx := p.dial()
	got, err := c.Units.End(ctx, "a.service")
	if err != nil {
		t.Fatal(err)
	}
	want := End{Began: 5, Tried: 9, Left: 8, Gone: 9, Exited: 7, Skipped: true, Needs: []string{"r.service", "b.service"}, Bound: []string{"b.service"}, Parts: []string{"c.service"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		status int32
		want   bool
	}{{0, true}, {15, false}} {
		p.property("a.service", "Type", "forking")
		p.property("a.service", "ExecStart", []execution{{Path: "/bin/a", PID: 7, Ended: 6, Code: exited, Status: tt.status}})
		forked, err := c.Units.End(ctx, "a.service")
		if forked.Left = 0; err != nil || forked.ExitedOnItsOwn(Unit{Name: "a.service", Active: "inactive", Result: "success"}) != tt.want {
			t.Errorf("forking service with exit status %d: exited on its own is not %t: %+v, %v", tt.status, tt.want, forked, err)
		}
	}
	if !got.ExitedOnItsOwn(Unit{Name: "a.service", Active: "inactive", Result: "success"}) {
		t.Error("a process that exited before its unit was stopped counts as stopped")
	}
}
