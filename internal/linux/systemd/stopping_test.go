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

func TestUnits_Unknown(t *testing.T) {
	p := startPID1(t)
	p.files = []string{"llm@.service", "idle.service"}
	p.set("vllm@a.service", "active/running", "")
	p.set("b.service", "inactive/dead", "")
	c, ctx := p.dial()
	patterns := []string{"llm@*.service", "llm@.service", "vllm@*.service", "b.service", "trainer@.service", "other-*.service"}
	got, err := c.Units.Unknown(ctx, patterns)
	if diff := cmp.Diff([]string{"trainer@.service", "other-*.service"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
