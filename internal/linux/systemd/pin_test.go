package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Units of a later run are pinned before those of an earlier run are released.
func TestPins(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	for _, units := range [][]string{{"a.service"}, {"a.service", "b@1.service"}, {"c.mount"}} {
		if err := c.Pins.Pin(ctx, units); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		var got [][]string
		for name := range p.units {
			got = append(got, p.props[name]["Before"].([]string))
		}
		p.mu.Unlock()
		if diff := cmp.Diff([][]string{units}, got); diff != "" {
			t.Errorf("pinned (-want +got):\n%s", diff)
		}
	}
	for range 2 { // a second Unpin is no error
		if err := c.Pins.Unpin(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.units) > 0 {
		t.Errorf("remaining units %v", p.units)
	}
}
