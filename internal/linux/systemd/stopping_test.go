package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnits_Stopping(t *testing.T) {
	p := startPID1(t)
	for name, state := range map[string]string{
		"x@a.service": "active/exited", "x@b.service": "active/exited*", "x@c.service": "deactivating/stop-post*",
		"x@d.service": "activating/start*", "x@e.service": "failed/failed", "y@f.service": "active/exited*",
	} {
		p.set(name, state, "")
	}
	c, ctx := p.dial()
	got, err := c.Units.Stopping(ctx, "x@*.service")
	if diff := cmp.Diff([]string{"x@b.service", "x@c.service"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
