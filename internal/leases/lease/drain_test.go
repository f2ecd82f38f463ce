package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// draining sets whether a command waits for the end of all leases.
func (c *client) draining(yes bool) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.host.still = func() error { return nil }
	if yes {
		c.host.still = func() error { return fmt.Errorf("%w: dcm apply --when-idle", ErrDraining) }
	}
}

// If the daemon ends after the move and before its answer, the caller is in its lease and requests it
// again. A drain may have started since, or other requests may be in the queue.
func TestAcquire_KeepsLeaseOfInterruptedCall(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begin func(*client)
	}{
		{"alone", func(*client) {}},
		{"a drain", func(c *client) { c.draining(true) }},
		{"others wait", func(c *client) { c.waits(process(1001, 11), 8) }},
		{"after another lease has ended", func(c *client) { c.host.Stop(c.Context(), c.host.tenants[0].Unit) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t)
				c.given(c.waits(process(1001, 9), 1))
				l := c.given(c.waits(process(1000, 10), 2))
				c.host.alone[10] = l.Unit
				c.keeper = New(Config{Host: hostOf(c.host), RejoinWindow: func() <-chan struct{} { return make(chan struct{}) }})
				tt.begin(c)
				before := len(c.host.tenants)
				who := process(1000, 10)
				who.Seniority = 1
				r := ask(2)
				r.Wait = true
				got := c.given(c.request(t.Context(), who, r))
				if got.Unit != l.Unit || len(c.host.tenants) != before {
					t.Errorf("lease: got %s, want %s; units: %+v", got.Unit, l.Unit, c.host.tenants)
				}
			})
		})
	}
}

func TestAcquire_OtherRequestReplacesLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, other := range []func(*Request){
			func(r *Request) { r.Partitions = 1 },
			func(r *Request) { r.Partitions = 3 },
			func(r *Request) { r.Kind = unitname.ExclusiveLease },
			func(r *Request) { r.Time = time.Hour },
			func(r *Request) { r.Place = placement.Spread },
			func(r *Request) { r.Partitions, r.GPUs = 0, 1 },
		} {
			c := newClient(t)
			l := c.given(c.waits(process(1000, 10), 2))
			c.host.alone[10] = l.Unit
			r := ask(2)
			other(&r)
			if got := c.given(c.request(t.Context(), process(1000, 10), r)); got.Unit == l.Unit {
				t.Errorf("request %d was answered with the former lease", i)
			}
		}
	})
}

// A drain waits for all leases, and a request for the end of the drain. So the request must not keep
// its lease.
func TestDrain_NotDelayedByWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		l := c.given(c.waits(process(1000, 10), 1))
		c.host.alone[10] = l.Unit
		c.draining(true)
		waits := c.waits(process(1000, 10), 2)
		if left := c.host.leases(); len(left) > 0 {
			t.Errorf("the drain waits for %s", left)
		}
		if now := c.host.tenants[0]; !Made(now.Unit) || len(now.Allowed) > 0 {
			t.Errorf("units of the waiting caller: %+v", now)
		}
		c.queued(10)
		c.draining(false)
		c.host.Stop(t.Context(), "") // wakes the queue, as after the change
		if got := c.given(waits); len(got.Choice.Partitions) != 2 {
			t.Errorf("lease after the drain: %+v", got)
		}
		if left := c.host.leases(); len(left) != 1 {
			t.Errorf("leases: %s", left)
		}
	})
}

// Otherwise two callers that wait for each other's partitions would wait forever, even without a drain.
func TestLease_EndsWhileOwnerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		for pid := 10; pid < 12; pid++ {
			c.host.alone[pid] = c.given(c.waits(process(1000, pid), 4)).Unit
		}
		first := c.waits(process(1000, 10), 8)
		second := c.waits(process(1000, 11), 8)
		l := c.given(first)
		c.host.Stop(t.Context(), l.Unit)
		c.given(second)
	})
}

func TestDrain_RefusesAWaiterInASharedLease(t *testing.T) {
	for name, late := range map[string]bool{"before the drain": true, "while it drains": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t)
				l := c.given(c.waits(process(1000, 10), 4))
				c.host.inside[11] = l.Unit
				c.given(c.waits(process(1001, 9), 4))
				c.draining(!late)
				waits := c.waits(process(1000, 11), 2)
				if late {
					c.queued(11)
					c.draining(true)
					c.host.Stop(t.Context(), "") // wakes the queue
				}
				got := c.result(waits)
				if !errors.Is(got.err, ErrDraining) || !strings.Contains(got.err.Error(), "process is in "+l.Unit) {
					t.Errorf("answer: %+v", got)
				}
			})
		})
	}
}

// The request of a process that cannot be moved out of its lease is refused.
func TestDrain_RefusesUnmovableCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.host.alone[10] = c.given(c.waits(process(1000, 10), 1)).Unit
		c.draining(true)
		c.host.onStart = func(Scope) error { return errors.New("no") }
		if got := c.result(c.waits(process(1000, 10), 2)); got.err == nil || !strings.Contains(got.err.Error(), "cannot move process 10 out of dcm-lease-1000-") {
			t.Errorf("answer: %+v", got)
		}
	})
}

// A process that waits to change one GPU keeps new leases, shared ones too, from that GPU only. A larger
// request is possible later.
func TestAcquire_AwaitedGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.keeper.Limit(Limits{Shares: 2})
		c.host.awaited = make(map[string]string)
		for _, p := range parts()[:4] {
			c.host.awaited[p.Name] = "dcm apply --when-idle"
		}
		shared := ask(5)
		shared.Kind, shared.Of = unitname.SharedLease, 2
		for _, r := range []Request{ask(5), shared} {
			if got := c.result(c.request(t.Context(), process(1000, 10), r)); !Passes(got.err) || !strings.Contains(got.err.Error(), "dcm apply --when-idle") {
				t.Errorf("request of more than the other GPU has: got %v, want the process that waits", got.err)
			}
		}
		if l := c.given(c.waits(process(1000, 11), 4)); slices.ContainsFunc(l.Choice.Partitions, func(p runstate.Part) bool { return p.GPU != parts()[4].GPU }) {
			t.Errorf("lease: got %+v, want the partitions of the other GPU", l.Choice.Partitions)
		}
	})
}
