package lease

import (
	"strings"
	"testing"
	"testing/synctest"
)

func TestMayEnter(t *testing.T) {
	const unit = "dcm-lease-1000-4f1c09aa.scope"
	for _, tt := range []struct {
		uid  uint32
		unit string
		want string // part of the error; "" for none
	}{
		{1000, unit, ""}, {0, unit, ""}, {1001, unit, "only that user and root can enter it"}, {0, "ssh.service", "not the name of a lease"},
	} {
		if err := MayEnter(tt.uid, tt.unit); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("user %d, %s: got %v, want %q", tt.uid, tt.unit, err, tt.want)
		}
	}
}

// A process alone in a lease of dcm run gets another lease to hold: PID 1 moves no process into the first one.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		var held []bool
		c.host.onStart = func(s Scope) error { held = append(held, s.Hold); return nil }
		first := c.given(c.request(t.Context(), alice, ask(1)))
		c.host.alone[alice.PID] = first.Unit
		c.host.terms[first.Unit] = Term{}
		r := ask(1)
		r.Hold = true
		if got := c.given(c.request(t.Context(), alice, r)); got.Unit == first.Unit {
			t.Errorf("lease: got %s again, want a new one", got.Unit)
		}
		if len(held) != 2 || held[0] || !held[1] {
			t.Errorf("scopes that others may enter: got %t, want only the second", held)
		}
	})
}
