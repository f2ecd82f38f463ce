package systemd

import "testing"

func TestRealize(t *testing.T) {
	for slice, want := range map[string]string{
		"dcm.slice":        "dcm-:realize.slice",
		"dcm-beta:1.slice": "dcm-beta:1-:realize.slice",
	} {
		p := startPID1(t)
		c, ctx := p.dial()
		if err := c.Cgroups.Realize(ctx, slice); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		_, made := p.props[want]
		_, left := p.units[want]
		p.mu.Unlock()
		if !made || left {
			t.Errorf("%s: %s started: %t, remains: %t", slice, want, made, left)
		}
	}
}
