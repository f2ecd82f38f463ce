package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/testkit/soak"
)

// arrival is a random request with its result.
type arrival struct {
	n           int
	time, hold  time.Duration // the requested time limit, 0 for none; and the time until its process ends
	uid         uint32
	came, began time.Time
	first       time.Time // when it was first the first of the queue
}

// alike reports whether two requests are equal in all that affects their order.
func (a *arrival) alike(b *arrival) bool {
	return a.n == b.n && a.time == b.time && (a.uid == 0) == (b.uid == 0)
}

// longestHoldLimit returns the latest end of a process with a lease.
const longestHoldLimit = 2 * time.Hour

// TestRandomArrivals sends random requests faster than they can be met. It checks that no partition
// has two leases, that equal requests start in the order of arrival, and that no request starves: the
// first of the queue waits at most for the present leases and for those that may overtake it.
// DCM_SEED repeats the choices of a run.
func TestRandomArrivals(t *testing.T) {
	seed := soak.Seed(t)
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { arrivals(t, rand.New(rand.NewPCG(seed, uint64(round)))) })
		})
	}
}

func arrivals(t *testing.T, r *rand.Rand) {
	c := newClient(t)
	var mu sync.Mutex
	var started []*arrival
	leased := make(map[string]string) // unit, by node
	c.host.onStart = func(s Scope) error {
		mu.Lock()
		defer mu.Unlock()
		for _, node := range s.Allow {
			if other := leased[node]; other != "" {
				t.Errorf("%s is granted to %s and to %s", node, other, s.Unit)
			}
			leased[node] = s.Unit
		}
		c.host.mu.Lock()
		c.host.terms[s.Unit] = Term{time.Now(), s.Time}
		c.host.mu.Unlock()
		return nil
	}
	var all []*arrival
	var wg sync.WaitGroup
	for pid := 10; pid < 90; pid++ {
		a := &arrival{n: 1 + r.IntN(3), hold: time.Duration(1 + r.Int64N(int64(longestHoldLimit))), uid: 1000 + uint32(r.IntN(3)), came: time.Now()}
		if r.IntN(10) == 0 {
			a.n = 8
		}
		if r.IntN(30) == 0 {
			a.uid = 0
		}
		if r.IntN(3) > 0 { // of few kinds, so that some requests are equal
			a.time = []time.Duration{5 * time.Minute, OvertakeLimit, time.Hour, longestHoldLimit}[r.IntN(4)]
			a.hold = min(a.hold, a.time)
		}
		all = append(all, a)
		wg.Go(func() {
			q := ask(a.n)
			q.Wait, q.Time = true, a.time
			c.host.mu.Lock()
			c.host.starts[pid] = uint64(pid)
			c.host.mu.Unlock()
			l, err := c.keeper.Acquire(t.Context(), process(a.uid, pid), q)
			if err != nil {
				t.Errorf("request %d: %v", pid, err)
				return
			}
			mu.Lock()
			a.began, started = time.Now(), append(started, a)
			mu.Unlock()
			time.Sleep(a.hold) // in the time of the bubble, while the process runs
			mu.Lock()
			for _, node := range l.Nodes {
				delete(leased, node)
			}
			mu.Unlock()
			c.host.Stop(t.Context(), l.Unit)
		})
		synctest.Wait()
		c.firsts(all)
		time.Sleep(time.Duration(r.Int64N(int64(8 * time.Minute))))
	}
	for end := time.Now().Add(80 * 2 * longestHoldLimit); len(c.keeper.Queue()) > 0; {
		if time.Now().After(end) {
			t.Fatalf("requests still wait: %+v; leases: %+v", c.keeper.Queue(), c.host.leases())
		}
		synctest.Wait()
		c.firsts(all)
		time.Sleep(time.Minute)
	}
	wg.Wait()
	overtaken := 0
	for i, a := range started {
		most := longestHoldLimit + OvertakeLimit + 2*time.Minute
		for _, b := range started {
			// Root's requests come before all others, so each prolongs the wait. It can prolong it by its whole
			// time limit: until then other requests may start, even if root's process exits earlier.
			if b.uid == 0 && b.began.After(a.first) && !b.began.After(a.began) {
				most += max(b.hold, b.time)
			}
		}
		if wait := a.began.Sub(a.first); !a.first.IsZero() && wait > most {
			t.Errorf("a request for %d partitions was the first of the queue for %s", a.n, wait)
		}
		for _, b := range started[i+1:] {
			if b.came.Before(a.came) {
				overtaken++
				if a.alike(b) && a.began.Before(b.began) { // the order of two starts at the same instant is not defined
					t.Errorf("of two equal requests, %+v and %+v, the later one started first", b, a)
				}
			}
		}
	}
	if overtaken == 0 {
		t.Error("no request overtook another one")
	}
}

// firsts records which users' requests have been the first of the queue.
func (c *client) firsts(all []*arrival) {
	i := slices.IndexFunc(c.keeper.Queue(), func(q Queued) bool { return q.UID != 0 })
	if i < 0 || i > 0 {
		return
	}
	if a := all[c.keeper.Queue()[0].PID-10]; a.first.IsZero() {
		a.first = time.Now()
	}
}
