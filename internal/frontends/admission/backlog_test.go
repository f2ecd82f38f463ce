package admission

import "testing"

var small = BacklogLimits{
	Call: 100, Sender: Share{2, 150}, Senders: Share{3, 1000}, User: Share{3, 300}, Users: Share{4, 1000}, Root: Share{9, 1000},
}

func TestBacklog_Limits(t *testing.T) {
	b := NewBacklog(small)
	receive := func(sender string, size int, want bool) *Received {
		t.Helper()
		r, err := b.Receive(sender, size)
		if (err == nil) != want {
			t.Fatalf("call of %s with %d bytes: %v, want accepted %t", sender, size, err, want)
		}
		return r
	}
	receive("a", 101, false)
	first := receive("a", 100, true)
	receive("a", 100, false) // bytes of one sender
	receive("a", 10, true)
	receive("a", 10, false) // calls of one sender
	receive("b", 10, true)
	receive("b", 10, false) // calls of all senders
	root := receive("c", 10, true)
	if err := root.Identify(0); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		receive("c", 10, true) // root's calls do not count for the others
	}
	if err := first.Identify(1000); err != nil {
		t.Fatal(err)
	}
	receive("a", 100, true) // now it counts for its user
	receive("a", 100, true)
	receive("a", 1, false)
	first.Leave()
	first.Leave()
	last := receive("a", 1, true)
	receive("a", 1, false)
	last.Leave()
	receive("a", 1, true)
}

// A user with calls on many connections has one limit.
func TestBacklog_ManyConnections(t *testing.T) {
	b := NewBacklog(small)
	for i, sender := range []string{"a", "b", "c", "d"} {
		r, err := b.Receive(sender, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Identify(1000); (err == nil) != (i < 3) {
			t.Errorf("call %d: %v", i, err)
		}
		if i == 3 {
			r.Leave()
		}
	}
	other, err := b.Receive("e", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Identify(1001); err != nil {
		t.Errorf("call of another user: %v", err)
	}
}
