package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

func TestImpossibleRequest_Refused(t *testing.T) {
	whole := func(n int) Request { return Request{Want: placement.Want{GPUs: n}, Kind: unitname.ConfinedLease} }
	for _, tt := range []struct {
		name     string
		reserved map[string]string
		set      func(*client)
		ask      Request
		text     string
	}{
		{"more than the node has", nil, nil, ask(9), "9 partitions requested, but the node has 8"},
		{"more than is not reserved", map[string]string{"0000:05:00.0-1": "vllm", "0000:26:00.0-1": "alpha", "0000:26:00.0-2": "alpha"}, nil, ask(6), "at most 5 of 8 can be leased; reserved: alpha 2, vllm 1"},
		{"a GPU, with a reservation on each", map[string]string{"0000:05:00.0-1": "vllm", "0000:26:00.0-1": "vllm"}, nil, whole(1), "1 whole GPU requested, but at most 0 of 2 can be leased; reserved: vllm 2"},
		{"a mode that no partition has", nil, func(c *client) { c.host.kind = "amd CPX/NPS1" }, Request{Want: placement.Want{Partitions: 1}, Kind: unitname.ConfinedLease, Sought: partition.Criteria{Mode: "QPX"}}, "there is no partition QPX: there are amd CPX/NPS1"},
		{"a GPU that the node does not have", nil, nil, Request{Want: placement.Want{}.NameGPUs([]partition.Address{"0000:05:00.0", "0000:99:00.0"}), Kind: unitname.ConfinedLease}, "no partition found for 0000:99:00.0"},
		{"a partition that is reserved", map[string]string{"0000:05:00.0-1": "vllm"}, nil, Request{Want: placement.Want{}.NamePartitions([]string{"0000:05:00.0-1"}), Kind: unitname.ConfinedLease}, "reserved: vllm 1"},
		{"more than a user may have", nil, func(c *client) { c.keeper.Limit(Limits{PerUser: 4}) }, ask(5), "5 requested, but max-per-user in [leases] is 4"},
		{"partitions of the lease that the caller waits in", nil, func(c *client) {
			l := c.given(c.waits(process(1000, 10), 3))
			c.host.inside[1] = l.Unit
		}, ask(6), "at most 5 of 8 can be leased; the caller runs in dcm-lease-1000-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t)
				c.host.reserved = tt.reserved
				if tt.set != nil {
					tt.set(c)
				}
				tt.ask.Wait = true
				got := c.result(c.request(t.Context(), alice, tt.ask))
				var impossible *ImpossibleError
				if !errors.As(got.err, &impossible) || !strings.Contains(got.err.Error(), tt.text) {
					t.Errorf("error: got %v, want an impossible request with %q", got.err, tt.text)
				}
			})
		})
	}
}

// The next command of a script needs the partitions of the command that has just ended. PID 1 removes the
// scope a moment after its last process.
func TestRequest_AfterTheLastProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		all := c.given(c.request(t.Context(), process(1000, 10), ask(8)))
		if err := c.result(c.request(t.Context(), alice, ask(1))).err; !insufficient(err) {
			t.Errorf("error while the processes run: got %v, want too few partitions", err)
		}
		c.host.empty = []string{all.Unit}
		next := c.request(t.Context(), alice, ask(1))
		c.queued() // it is none of those that asked to wait
		c.host.Stop(t.Context(), all.Unit)
		c.given(next)
	})
}

// The partitions of the command that has just ended are being cleaned. Those whose cleaning is required and has failed
// are not waited for.
func TestRequest_DuringCleaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		cleaning := Cleaning{Pending: map[string]string{"0000:05:00.0-0": "dcm-clean@0000:05:00.0-0.service", "0000:05:00.0-1": "dcm-clean@0000:05:00.0-1.service has failed"},
			Ending: map[string]bool{"0000:05:00.0-0": true}}
		c.host.cleaning = cleaning
		if err := c.result(c.request(t.Context(), alice, ask(8))).err; !insufficient(err) {
			t.Errorf("error with a failed cleaning: got %v, want too few partitions", err)
		}
		next := c.request(t.Context(), alice, ask(7))
		c.queued()
		c.host.mu.Lock()
		c.host.cleaning = Cleaning{Pending: map[string]string{"0000:05:00.0-1": cleaning.Pending["0000:05:00.0-1"]}}
		c.host.stir()
		c.host.mu.Unlock()
		c.given(next)
	})
}

// A scope that PID 1 does not remove does not delay the answer for long.
func TestRequest_ScopeStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		all := c.given(c.request(t.Context(), process(1000, 10), ask(8)))
		c.host.empty = []string{all.Unit}
		next := c.request(t.Context(), alice, ask(1))
		time.Sleep(endTimeout + time.Second)
		c.host.mu.Lock()
		c.host.stir() // as changePollInterval does
		c.host.mu.Unlock()
		if err := c.result(next).err; !insufficient(err) {
			t.Errorf("error: got %v, want too few partitions", err)
		}
	})
}

// A driver may not answer while an instance is destroyed. That does not end a request that waits for it.
func TestWaitingRequest_UnreadableGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.host.dynamic, c.host.unreadable = []DynamicGPU{dynamicGPU("0000:05:00.0")}, fmt.Errorf("%w: no answer", ErrUnreadable)
		got := c.request(t.Context(), alice, Request{Make: "3g.40gb", Kind: unitname.ConfinedLease, Wait: true})
		c.queued(alice.PID)
		c.host.unreadable = nil
		c.host.stir()
		c.given(got)
	})
}

// A new reservation can make a waiting request impossible.
func TestWaitingRequest_BecomesImpossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		held := c.given(c.waits(process(1000, 10), 1))
		waits := c.waits(process(1000, 11), 8)
		c.queued(11)
		c.host.mu.Lock()
		c.host.reserved = map[string]string{"0000:05:00.0-1": "vllm"}
		c.host.mu.Unlock()
		c.host.Stop(t.Context(), held.Unit)
		var impossible *ImpossibleError
		if got := c.result(waits); !errors.As(got.err, &impossible) {
			t.Errorf("answer: %+v", got)
		}
	})
}

func TestLimit_RequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.keeper.Limit(Limits{PerUser: 3})
		first := c.given(c.waits(process(1000, 10), 2))
		var limit *LimitError
		if got := c.result(c.request(t.Context(), process(1000, 11), ask(2))); !errors.As(got.err, &limit) || !Passes(got.err) {
			t.Errorf("answer without Wait: %+v", got)
		}
		two, one := c.waits(process(1000, 12), 2), c.waits(process(1000, 13), 1)
		c.queued(12, 13) // a smaller request does not overtake one with the same limit
		if got, want := c.keeper.Queue()[0].Reason, "2 more would exceed max-per-user in [leases] = 3: 2 in use"; got != want {
			t.Errorf("reason of the first request: got %q, want %q", got, want)
		}
		c.given(c.waits(process(1001, 14), 3)) // requests of other users are not delayed
		c.host.Stop(t.Context(), first.Unit)
		c.given(two)
		c.given(one)
	})
}

func TestGroupLimit_StrictestApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.keeper.Limit(Limits{PerUser: 6, Groups: []GroupLimits{{Name: "course", PerUser: 2, Total: 3}, {Name: "staff", PerUser: 8}}})
		c.keeper.policy.member = func(uid uint32, group string) bool { return group == "course" && (uid == 1000 || uid == 1001) }
		student := func(uid uint32, pid int) Caller {
			return Caller{UID: uid, PID: pid, Groups: []string{"course"}}
		}
		if got := c.result(c.waits(student(1000, 10), 3)); !strings.Contains(fmt.Sprint(got.err), "3 requested, but max-per-user in [leases.groups.course] is 2") {
			t.Errorf("a member of course: %v", got.err)
		}
		c.given(c.waits(student(1000, 11), 2))
		second := c.waits(student(1001, 12), 2)
		c.queued(12)
		if got, want := c.keeper.Queue()[0].Reason, "2 more would exceed max-total in [leases.groups.course] = 3: 2 in use"; got != want {
			t.Errorf("reason: got %q, want %q", got, want)
		}
		staff := Caller{UID: 2000, PID: 13, Groups: []string{"staff"}}
		if got := c.result(c.waits(staff, 7)); !strings.Contains(fmt.Sprint(got.err), "7 requested, but max-per-user in [leases] is 6") {
			t.Errorf("a member of staff: %v", got.err)
		}
		c.keeper.Limit(Limits{PerUser: 6, Groups: []GroupLimits{{Name: "course", PerUser: 2, Total: 4}}})
		c.given(second) // new limits apply to waiting requests
	})
}

func TestTime_IsLimited(t *testing.T) {
	limits := Limits{Default: 2 * time.Hour, Longest: 8 * time.Hour, Groups: []GroupLimits{{Name: "course", Longest: time.Hour}}}
	for _, tt := range []struct {
		name   string
		limits Limits
		caller Caller
		time   time.Duration
		want   time.Duration
		text   string // the setting, or the error
	}{
		{"no limit", Limits{}, process(1000, 1), 0, 0, ""},
		{"the default", limits, process(1000, 1), 0, 2 * time.Hour, "default-time in [leases]"},
		{"requested", limits, process(1000, 1), 3 * time.Hour, 3 * time.Hour, ""},
		{"too long", limits, process(1000, 1), 9 * time.Hour, 0, "9h0m0s requested, but max-time in [leases] is 8h0m0s"},
		{"of a group", limits, Caller{UID: 1000, PID: 1, Groups: []string{"course"}}, 0, time.Hour, "max-time in [leases.groups.course]"},
		{"too long for a group", limits, Caller{UID: 1000, PID: 1, Groups: []string{"course"}}, 2 * time.Hour, 0, "2h0m0s requested, but max-time in [leases.groups.course] is 1h0m0s"},
		{"root", limits, process(0, 1), 0, 0, ""},
		{"only a longest time", Limits{Longest: time.Hour}, process(1000, 1), 0, time.Hour, "max-time in [leases]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost()
			k := newAllocator(h)
			k.Limit(tt.limits)
			var made Scope
			h.onStart = func(s Scope) error { made = s; return nil }
			r := ask(1)
			r.Time = tt.time
			l, err := k.Acquire(t.Context(), tt.caller, r)
			text := l.TimeBy
			if err != nil {
				text = err.Error()
			}
			if text != tt.text || made.Time != tt.want {
				t.Errorf("time limit: got %s, %q; want %s, %q", made.Time, text, tt.want, tt.text)
			}
		})
	}
}

func TestRoot_ServedBeforeUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		held := c.given(c.waits(process(1000, 10), 2))
		all := c.waits(process(1000, 11), 8)
		c.given(c.request(t.Context(), process(0, 12), ask(2)))
		small := c.waits(process(1001, 13), 1)
		roots := c.waits(process(0, 14), 6)
		c.queued(14, 11, 13)
		c.host.Stop(t.Context(), held.Unit)
		c.given(roots)
		c.queued(11, 13)
		_, _ = all, small
	})
}

func TestRemove_OwnerAndRootOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.given(c.waits(process(1000, 10), 8))
		first, second, third := c.waits(process(1000, 11), 8), c.waits(process(1001, 12), 8), c.waits(process(1000, 13), 8)
		if err := c.keeper.Remove(1001, 11); err == nil || err.Error() != "request 11 is user 1000's; only that user and root can remove it" {
			t.Errorf("Remove by another user: %v", err)
		}
		if err := c.keeper.Remove(0, 10); err == nil {
			t.Error("Remove of a request that has its lease succeeded")
		}
		for pid, uid := range map[int]uint32{11: 1000, 12: 0} {
			if err := c.keeper.Remove(uid, pid); err != nil {
				t.Error(err)
			}
		}
		var removed *RemovedError
		if got := c.result(first); !errors.As(got.err, &removed) || removed.By != 1000 || Passes(got.err) {
			t.Errorf("answer of the first: %+v", got)
		}
		if got := c.result(second); !errors.As(got.err, &removed) || removed.By != 0 {
			t.Errorf("answer of the second: %+v", got)
		}
		c.queued(13)
		_ = third
	})
}

func TestMoved_ReportsThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		held := c.given(c.waits(process(1000, 10), 8))
		first := c.waits(process(1000, 11), 8)
		var positions []string
		r := ask(8)
		r.Wait = true
		r.Moved = func(q Queued, of int) {
			positions = append(positions, fmt.Sprintf("%d of %d: %s", q.Position, of, q.Reason))
		}
		c.request(t.Context(), process(1000, 12), r)
		c.host.Stop(t.Context(), held.Unit)
		c.given(first)
		synctest.Wait()
		want := "2 of 2: 8 partitions requested, but 0 of 8 are free\n1 of 1: 8 partitions requested, but 0 of 8 are free"
		if got := strings.Join(positions, "\n"); got != want {
			t.Errorf("positions: got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestOvertaking(t *testing.T) {
	lasting := func(n int, d time.Duration) Request {
		r := ask(n)
		r.Time, r.Wait = d, true
		return r
	}
	for _, tt := range []struct {
		name   string
		held   map[int]time.Duration // time limits of the leases, by number of partitions; 0 for none
		first  Request
		second Request
		starts bool
	}{
		{"ends before the first can start", map[int]time.Duration{5: time.Hour}, lasting(8, 0), lasting(3, time.Hour), true},
		{"ends later", map[int]time.Duration{5: time.Hour}, lasting(8, 0), lasting(3, time.Hour+time.Second), false},
		{"no time limit", map[int]time.Duration{5: time.Hour}, lasting(8, 0), lasting(3, 0), false},
		{"enough for both", map[int]time.Duration{6: time.Hour}, lasting(6, 0), lasting(2, 0), true},
		{"not enough for both", map[int]time.Duration{6: time.Hour}, lasting(7, 0), lasting(2, 0), false},
		{"start not predictable, short lease", map[int]time.Duration{5: 0}, lasting(8, 0), lasting(3, OvertakeLimit), true},
		{"start not predictable, longer lease", map[int]time.Duration{5: 0}, lasting(8, 0), lasting(3, OvertakeLimit+time.Second), false},
		{"start not predictable, no time limit", map[int]time.Duration{5: 0}, lasting(8, 0), lasting(3, 0), false},
		{"one of two leases has a limit", map[int]time.Duration{2: 0, 4: time.Hour}, lasting(6, 0), lasting(2, time.Hour), true},
		{"the same request", map[int]time.Duration{5: time.Hour}, lasting(4, time.Minute), lasting(4, time.Minute), false},
	} {
		for _, wait := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, waits %t", tt.name, wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newClient(t)
					pid := 10
					for n, d := range tt.held {
						l := c.given(c.request(t.Context(), process(1000, pid), lasting(n, d)))
						c.host.terms[l.Unit] = Term{time.Now(), d}
						pid++
					}
					c.request(t.Context(), process(1000, 20), tt.first)
					c.queued(20)
					second := tt.second
					second.Wait = wait
					a := c.request(t.Context(), process(1000, 21), second)
					switch {
					case tt.starts:
						c.given(a)
					case wait:
						c.queued(20, 21)
					default:
						if got := c.result(a); !Passes(got.err) {
							t.Errorf("answer: %+v", got)
						}
					}
				})
			})
		}
	}
}

// During repeated daemon-reexecs PID 1 moves no process into a scope. Waiting requests must not fail
// because of that.
func TestWaitingRequest_OutlastsReexecs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		reexecs := true
		c.host.onStart = func(Scope) error {
			c.host.mu.Lock()
			defer c.host.mu.Unlock()
			if reexecs {
				return fmt.Errorf("%w: it is inactive", ErrNotMoved)
			}
			return nil
		}
		if got := c.result(c.request(t.Context(), process(0, 10), ask(1))); !errors.Is(got.err, ErrNotMoved) || !Passes(got.err) {
			t.Errorf("answer without Wait: %+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := ask(8)
		r.Wait = true
		interrupted := c.request(ctx, process(1000, 11), r)
		ended := c.waits(process(1000, 12), 8)
		first := c.waits(process(1000, 13), 8)
		time.Sleep(10 * notMovedDelay)
		cancel()
		if got := c.result(interrupted); !errors.Is(got.err, context.Canceled) {
			t.Errorf("answer of an interrupted request: %+v", got)
		}
		c.host.mu.Lock()
		delete(c.host.starts, 12)
		c.host.mu.Unlock()
		time.Sleep(notMovedDelay)
		if got := c.result(ended); got.err == nil {
			t.Errorf("answer of a process that has ended: %+v", got)
		}
		time.Sleep(notMovedDelay / 2) // the first request returns to the queue before the second
		second := c.waits(process(1000, 14), 8)
		c.host.mu.Lock()
		reexecs = false
		c.host.mu.Unlock()
		time.Sleep(notMovedDelay)
		l := c.given(first)
		c.host.Stop(t.Context(), l.Unit)
		time.Sleep(notMovedDelay)
		c.given(second)
	})
}

// A request leaves the queue at the limit of its wait. The error has the last reason with the holders.
func TestWaitLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		all := c.given(c.request(t.Context(), process(1000, 10), ask(8)))
		r := ask(1)
		r.Wait, r.WaitLimit = true, 30*time.Minute
		waiting := c.request(t.Context(), alice, r)
		time.Sleep(r.WaitLimit - time.Second)
		c.queued(alice.PID)
		time.Sleep(time.Second)
		got := c.result(waiting)
		want := "the time to wait is over: 1 partition requested, but 0 of 8 are free; the others have " + all.Unit
		if got.err == nil || got.err.Error() != want || !Passes(got.err) {
			t.Errorf("error: got %v, want %s", got.err, want)
		}
		c.queued()
		r.WaitLimit = time.Hour
		waiting = c.request(t.Context(), alice, r)
		c.host.Stop(t.Context(), all.Unit)
		c.given(waiting)
	})
}
