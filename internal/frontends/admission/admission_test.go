package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var limits = Limits{
	Calls: 16, AllCalls: 256, Waiters: 128, AllWaiters: 256, RootExempt: true,
	Rates: map[Kind]Rate{Query: {16, time.Second / 2}, Lease: {128, time.Second / 10}},
}

func TestEnter_LimitsConcurrentCalls(t *testing.T) {
	l := New(limits)
	enter := func(uid uint32) (func(), error) { return l.Enter(t.Context(), uid, Status) }
	var leaves []func()
	for range limits.Calls {
		leave, err := enter(1000)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	var limit *LimitError
	if _, err := enter(1000); !errors.As(err, &limit) {
		t.Errorf("one call above the limit: got %v, want a LimitError", err)
	}
	for _, uid := range []uint32{1001, 0} {
		leave, err := enter(uid)
		if err != nil {
			t.Fatalf("user %d cannot call because of the calls of another user: %v", uid, err)
		}
		leave()
	}
	leaves[0]()
	if _, err := enter(1000); err != nil {
		t.Errorf("after the end of one call: %v", err)
	}
	for uid := uint32(2000); ; uid++ {
		if _, err := enter(uid); err != nil {
			break
		}
		if uid > 2000+uint32(limits.AllCalls) {
			t.Fatal("the number of users is not limited")
		}
	}
	if _, err := enter(0); err != nil {
		t.Errorf("root: %v", err)
	}
}

func TestEnter_LimitsRootUnlessExempt(t *testing.T) {
	own := limits
	own.RootExempt = false
	l := New(own)
	for range own.Calls {
		if _, err := l.Enter(t.Context(), 0, Status); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Enter(t.Context(), 0, Status); err == nil {
		t.Error("root has no limit, want one")
	}
}

func TestEnter_LimitsRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(limits)
		enter := func(uid uint32, kind Kind) {
			t.Helper()
			leave, err := l.Enter(t.Context(), uid, kind)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		began := time.Now()
		for range 16 {
			for uid := range uint32(2 * remembered) {
				enter(1000+uid, Query)
			}
		}
		enter(1000, Status)
		enter(1000, Lease)
		for range 1000 {
			enter(0, Query)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("bursts, other kinds and root: took %s, want no delay", took)
		}
		enter(1000, Query)
		if took := time.Since(began); took != time.Second/2 {
			t.Errorf("delay of the first call after the burst: %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		if _, err := l.Enter(ctx, 1001, Query); err != nil { // after half a second the rate permits it
			t.Error(err)
		}
		if _, err := l.Enter(ctx, 1001, Query); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a deadline before the call is permitted: %v", err)
		}
		<-time.After(time.Minute)
		for uid := range uint32(2 * remembered) {
			enter(1_000_000+uid, Query)
		}
		if len(l.users) > 3*remembered {
			t.Errorf("number of remembered users: %d", len(l.users))
		}
		if l.calls != 1 { // the call of 1001, which has not ended
			t.Errorf("running calls: got %d, want 1", l.calls)
		}
	})
}

func TestWait_LimitsWaiters(t *testing.T) {
	l := New(limits)
	var ends []func()
	for _, uid := range []uint32{1000, 1001, 1002} {
		for i := range limits.Waiters + 1 {
			leave, err := l.Wait(uid)
			if full := i == limits.Waiters || uid == 1002 && i > 0; (err != nil) != full {
				t.Fatalf("user %d with %d waiting calls: %v", uid, i, err)
			} else if !full {
				ends = append(ends, leave)
			}
		}
	}
	if _, err := l.Enter(t.Context(), 1000, Status); err != nil {
		t.Errorf("another call of a user with waiting calls: %v", err)
	}
	if _, err := l.Wait(0); err != nil {
		t.Errorf("root: %v", err)
	}
	for _, end := range ends {
		end()
	}
	if l.waiters != 0 {
		t.Errorf("waiting calls: got %d, want 0", l.waiters)
	}
}

func TestJoin_NoDelayAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(limits)
		began := time.Now()
		for range limits.Waiters {
			if _, err := l.Join(t.Context(), 1000, Lease); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("delay: got %s, want none", took)
		}
	})
}

func TestRejected_OncePerMinuteAndUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(limits)
		logged := 0
		for range 100 {
			for _, uid := range []uint32{1000, 1001} {
				if _, log := l.Rejected(uid); log {
					logged++
				}
			}
		}
		if logged != 2 {
			t.Errorf("logged rejections: got %d of 200 of two users", logged)
		}
		<-time.After(LogInterval)
		if suppressed, log := l.Rejected(1000); !log || suppressed != 99 {
			t.Errorf("after a minute: logged %t, suppressed %d", log, suppressed)
		}
		for uid := range uint32(4 * remembered) {
			l.Rejected(uid)
			if uid == 2*remembered {
				<-time.After(LogInterval)
			}
		}
		if len(l.rejected) > 3*remembered {
			t.Errorf("number of remembered users: %d", len(l.rejected))
		}
	})
}
