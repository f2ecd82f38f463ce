package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is remembered is so until no run is owed any more: a later run's units are held
// before an earlier one's are let go.
func TestWhatIsHeldIsHeldUntilItIsReleased(t *testing.T) {
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
			t.Errorf("held (-want +got):\n%s", diff)
		}
	}
	for range 2 { // nothing held is nothing to release
		if err := c.Pins.Unpin(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.units) > 0 {
		t.Errorf("left are %v", p.units)
	}
}
