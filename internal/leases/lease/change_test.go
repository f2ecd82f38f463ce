package lease

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestExtend(t *testing.T) {
	const unit, unlimited, ended = "dcm-lease-1000-00000001.scope", "dcm-lease-1000-00000002.scope", "dcm-lease-1000-00000003.scope"
	for _, tt := range []struct {
		name   string
		caller Caller
		unit   string
		limit  time.Duration
		text   string // of the error; "" for none
		want   time.Duration
	}{
		{"longer", alice, unit, 2 * time.Hour, "", 2 * time.Hour},
		{"again", alice, unit, time.Hour, "", time.Hour},
		{"shorter", alice, unit, time.Minute, "is 1h0m0s already", time.Hour},
		{"longer than max-time", alice, unit, 5 * time.Hour, "5h0m0s requested, but max-time in [leases] is 4h0m0s", time.Hour},
		{"longer than max-time of a group", Caller{UID: 1000, Groups: []string{"course"}}, unit, 3 * time.Hour, "max-time in [leases.groups.course] is 2h0m0s", time.Hour},
		{"longer than max-time by root", Caller{}, unit, 5 * time.Hour, "", 5 * time.Hour},
		{"another user's", Caller{UID: 1001}, unit, 2 * time.Hour, "is the lease of user 1000; only that user", time.Hour},
		{"without a limit", alice, unlimited, 2 * time.Hour, "has no time limit", time.Hour},
		{"ended", alice, ended, 2 * time.Hour, "there is no lease", time.Hour},
		{"no lease", alice, "sshd.service", 2 * time.Hour, "is not the name of a lease", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost()
			h.terms = map[string]Term{unit: {time.Now(), time.Hour}, unlimited: {Began: time.Now()}}
			k := newAllocator(h)
			k.Limit(Limits{Longest: 4 * time.Hour, Groups: []GroupLimits{{Name: "course", Longest: 2 * time.Hour}}})
			err := k.Extend(t.Context(), tt.caller, tt.unit, tt.limit)
			if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error: got %v, want %q", err, tt.text)
			}
			if got := h.terms[unit].Limit; got != tt.want {
				t.Errorf("time limit: got %s, want %s", got, tt.want)
			}
		})
	}
}

// Concurrent extensions of a lease follow each other: none fails since the other one writes too, and none
// shortens the limit of the other.
func TestExtend_AtOnce(t *testing.T) {
	const unit = "dcm-lease-1000-00000001.scope"
	for name, limits := range map[string][2]time.Duration{"longer last": {2 * time.Hour, 3 * time.Hour}, "longer first": {3 * time.Hour, 2 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost()
				h.terms, h.reload = map[string]Term{unit: {time.Now(), time.Hour}}, 5*time.Second
				k := newAllocator(h)
				var errs [2]error
				var both sync.WaitGroup
				for i, limit := range limits {
					both.Go(func() { errs[i] = k.Extend(t.Context(), alice, unit, limit) })
					synctest.Wait()
				}
				both.Wait()
				if errs[0] != nil || errs[1] != nil && !strings.Contains(errs[1].Error(), "is 3h0m0s already") {
					t.Errorf("got %v", errs)
				}
				if got := h.terms[unit].Limit; got != 3*time.Hour {
					t.Errorf("time limit: got %s, want 3h", got)
				}
			})
		})
	}
	k, end := newAllocator(newHost()), make(chan struct{})
	release, _ := k.extending.lock(t.Context(), unit)
	defer release()
	left, leave := context.WithCancel(t.Context())
	go func() { defer close(end); leave() }()
	if _, err := k.extending.lock(left, unit); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: got %v", err)
	}
	<-end
	if again, err := k.extending.lock(t.Context(), "dcm-lease-1000-00000002.scope"); err != nil {
		t.Errorf("another lease: got %v", err)
	} else {
		again()
	}
}

// A request that was overtaken by a short lease must not wait for an extension of it.
func TestExtend_RefusedWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		l := c.given(c.waits(process(1000, 10), 8))
		c.host.terms = map[string]Term{l.Unit: {time.Now(), time.Hour}}
		c.waits(process(1000, 11), 8)
		if err := c.keeper.Extend(t.Context(), alice, l.Unit, 2*time.Hour); err != nil {
			t.Errorf("extension while only the user's own request waits: %v", err)
		}
		c.waits(process(1001, 12), 8)
		var insufficient *InsufficientError
		if err := c.keeper.Extend(t.Context(), alice, l.Unit, 3*time.Hour); !errors.As(err, &insufficient) {
			t.Errorf("extension while another user's request waits: got %v, want an InsufficientError", err)
		}
		if err := c.keeper.Extend(t.Context(), Caller{}, l.Unit, 3*time.Hour); err != nil {
			t.Errorf("extension by root: %v", err)
		}
		if got := c.host.terms[l.Unit].Limit; got != 3*time.Hour {
			t.Errorf("time limit: got %s, want 3h", got)
		}
	})
}
