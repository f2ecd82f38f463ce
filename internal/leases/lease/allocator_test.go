package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

func TestAcquire_ScopeWithNodes(t *testing.T) {
	h := newHost()
	k := New(Config{Host: hostOf(h), Common: []string{"/dev/kfd"}})
	var made Scope
	h.onStart = func(s Scope) error { made = s; return nil }
	l := acquire(t, k, alice, ask(2))
	if want := "/dev/kfd /dev/dri/renderD128 /dev/dri/renderD129"; strings.Join(made.Allow, " ") != want || strings.Join(l.Nodes, " ") != want {
		t.Errorf("device nodes: got %s in the scope and %s in the lease, want %s", made.Allow, l.Nodes, want)
	}
	n, ok := unitname.ParseLease(made.Unit)
	if !ok || n.UID != 1000 || n.Kind != unitname.ConfinedLease || made.Unit != l.Unit {
		t.Errorf("scope: got %+v", made)
	}
	if want := "Lease of 0000:05:00.0-0 0000:05:00.0-1: true"; made.Description != want {
		t.Errorf("description: got %q, want %q", made.Description, want)
	}
	again := acquire(t, k, alice, ask(2))
	if again.Choice.Partitions[0].Name != "0000:05:00.0-2" {
		t.Errorf("second lease: got %s", again.Choice.Reason)
	}
}

// A process that is alone in its lease gets another lease in exchange.
func TestAcquire_ReplacesOwnLease(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	k.Limit(Limits{PerUser: 8})
	first := acquire(t, k, alice, ask(8))
	if _, err := k.Acquire(t.Context(), alice, ask(1)); err == nil {
		t.Error("a caller that shares its lease with other processes got a partition although none is free")
	}
	h.alone = map[int]string{1: first.Unit}
	if _, err := k.Acquire(t.Context(), Caller{UID: 1001, PID: 1}, ask(8)); err == nil {
		t.Error("the lease of another user was replaced")
	}
	if c, err := k.Consider(t.Context(), alice, ask(8)); err != nil || len(c.Partitions) != 8 {
		t.Errorf("Consider: %+v, %v", c, err)
	}
	second := acquire(t, k, alice, ask(8))
	if len(h.tenants) != 1 || h.tenants[0].Unit != second.Unit {
		t.Errorf("units: got %+v", h.tenants)
	}
	// If another process enters the lease meanwhile, that process stays, and no partition gets two holders.
	h.alone, h.others = map[int]string{1: second.Unit}, true
	if _, err := k.Acquire(t.Context(), alice, ask(4)); err == nil || !strings.Contains(err.Error(), second.Unit) {
		t.Errorf("after another process has entered the lease: %v", err)
	}
	if len(h.tenants) != 1 || h.tenants[0].Unit != second.Unit {
		t.Errorf("units: got %+v", h.tenants)
	}
}

func TestAcquire_Refusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*host)
		ask  Request
		text string
	}{
		{"more than the node has", func(*host) {}, ask(9), "9 partitions requested, but the node has 8"},
		{"reserved for an inactive unit", func(h *host) { h.reserved = map[string]string{"0000:05:00.0-1": "vllm"} }, ask(8), "8 partitions requested, but at most 7 of 8 can be leased; reserved: vllm 1"},
		{"held by a unit", func(h *host) {
			h.tenants = []UnitDevices{{"vllm.service", true, []string{"/dev/kfd", "/dev/dri/renderD130"}}, {"old.service", false, []string{"/dev/dri/renderD131"}}}
		}, ask(8), "8 partitions requested, but 7 of 8 are free; the others have vllm.service"},
		{"open in a process", func(h *host) { h.open = map[string][]string{"0000:26:00.0-3": {"python[4711]"}} }, ask(8), "7 of 8 are free; the others have python[4711]"},
		{"a whole GPU", func(h *host) { h.open = map[string][]string{"0000:26:00.0-3": {"python[4711]"}} }, Request{Want: placement.Want{GPUs: 2}}, "2 whole GPUs requested, but 1 of 2 is free; the others have python[4711]"},
		{"partitioning", func(h *host) { h.changing = true }, ask(1), "the GPUs are being partitioned"},
		{"the caller has ended", func(h *host) { delete(h.starts, 1) }, ask(1), "process 1: has ended"},
		{"another process has the PID", func(h *host) { h.starts[1] = 9 }, ask(1), "process 1: has ended"},
		{"PID 1 refuses", func(h *host) { h.onStart = func(Scope) error { return errors.New("no") } }, ask(1), ".scope: no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost()
			tt.set(h)
			before := len(h.tenants)
			_, err := newAllocator(h).Acquire(t.Context(), alice, tt.ask)
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error: got %v, want one with %q", err, tt.text)
			}
			if len(h.tenants) != before {
				t.Errorf("units after the refusal: %+v", h.tenants)
			}
		})
	}
}

// Between the check of the caller and the move, another process may get the caller's PID.
func TestAcquire_UndoesAnotherProcess(t *testing.T) {
	h := newHost()
	h.onStart = func(Scope) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.starts[1] = 99
		return nil
	}
	if l, err := newAllocator(h).Acquire(t.Context(), alice, ask(1)); err == nil || len(h.tenants) > 0 {
		t.Errorf("got %+v, %v, with the units %+v; want an error and no unit", l, err, h.tenants)
	}
}

// A daemon-reexec makes PID 1 forget the process of a queued scope.
func TestAcquire_RetriesWhileCallerExists(t *testing.T) {
	for name, tt := range map[string]struct {
		fails int
		ends  bool // the caller ends during the first attempt
		given bool
	}{"once": {1, false, true}, "for ever": {1000, false, false}, "and the caller ends": {1, true, false}} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			units := make(map[string]bool)
			h.onStart = func(s Scope) error {
				h.mu.Lock()
				defer h.mu.Unlock()
				units[s.Unit] = true
				if tt.ends {
					delete(h.starts, 1)
				}
				if len(units) <= tt.fails {
					return fmt.Errorf("%w: its job failed", ErrNotMoved)
				}
				return nil
			}
			l, err := newAllocator(h).Acquire(t.Context(), alice, ask(1))
			if (err == nil) != tt.given || tt.given && !units[l.Unit] {
				t.Errorf("%+v, %v", l, err)
			}
			if want := min(tt.fails+1, maxStarts); !tt.ends && len(units) != want || tt.ends && len(units) != 1 {
				t.Errorf("number of scopes: got %d", len(units))
			}
			if left := len(h.tenants); (left == 1) != tt.given {
				t.Errorf("units: got %+v", h.tenants)
			}
		})
	}
}

func TestAcquire_UserLimit(t *testing.T) {
	k := newAllocator(newHost())
	k.Limit(Limits{PerUser: 3})
	acquire(t, k, alice, ask(2))
	var limit *LimitError
	if _, err := k.Acquire(t.Context(), alice, ask(2)); !errors.As(err, &limit) || limit.Has != 2 {
		t.Errorf("two more than the limit: %v", err)
	}
	acquire(t, k, alice, ask(1))
	acquire(t, k, Caller{UID: 1001, PID: 2}, ask(2))
	acquire(t, k, Caller{UID: 0, PID: 3}, ask(3))
}

// If the process or the daemon ends during the start, the scope stays active without a process.
func TestAcquire_UndoesUnknownScope(t *testing.T) {
	h := newHost()
	ctx, cancel := context.WithCancel(t.Context())
	h.onStart = func(s Scope) error {
		cancel()
		h.tenants = append(h.tenants, UnitDevices{s.Unit, true, s.Allow})
		return ctx.Err()
	}
	if _, err := newAllocator(h).Acquire(ctx, alice, ask(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("result: %v", err)
	}
	if len(h.tenants) > 0 {
		t.Errorf("partitions are lost to the units %+v", h.tenants)
	}
}

func TestAcquire_Waits(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	all := acquire(t, k, alice, ask(8))
	type answer struct {
		who int
		l   Lease
		err error
	}
	answers := make(chan answer)
	wait := func(who, n int) {
		r, queued := waiting(n)
		go func() {
			l, err := k.Acquire(t.Context(), Caller{UID: 1000, PID: 2}, r)
			answers <- answer{who, l, err}
		}()
		<-queued
	}
	wait(1, 8)
	wait(2, 1)
	var short *InsufficientError
	if _, err := k.Acquire(t.Context(), alice, ask(1)); !errors.As(err, &short) {
		t.Errorf("without a free partition: %v", err)
	}
	h.Stop(t.Context(), all.Unit)
	one := <-answers
	if one.who != 1 || one.err != nil {
		t.Fatalf("first answer: %+v", one)
	}
	h.Stop(t.Context(), one.l.Unit)
	if two := <-answers; two.err != nil {
		t.Errorf("second answer: %+v", two)
	}
	// An impossible request does not wait.
	r := ask(9)
	r.Wait = true
	if _, err := k.Acquire(t.Context(), alice, r); err == nil {
		t.Error("9 of 8 partitions were granted")
	}
	// A request whose caller disconnects leaves the queue.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = ask(8)
	r.Wait = true
	if _, err := k.Acquire(ctx, alice, r); !errors.Is(err, context.Canceled) || len(k.Queue()) != 0 {
		t.Errorf("%v; %d requests in the queue", err, len(k.Queue()))
	}
}

func TestAcquire_NoteNotExclusive(t *testing.T) {
	h := newHost()
	h.guard = "this kernel has no guard"
	r := ask(1)
	r.Kind = unitname.ExclusiveLease
	l := acquire(t, newAllocator(h), alice, r)
	if !slices.Contains(l.Notes, "not exclusive: this kernel has no guard") {
		t.Errorf("notes: got %q", l.Notes)
	}
}

func TestAcquire_ReplacesOpenExclusiveLease(t *testing.T) {
	const note = "not exclusive: grab[1507] has it open"
	for _, tt := range []struct {
		name     string
		n        int
		pounces  int
		want     string // the first partition
		guarded  int
		noted    bool
		reserved map[string]string
	}{
		{"once", 1, 1, "0000:05:00.0-1", 2, false, nil},
		{"three times", 1, 3, "0000:05:00.0-3", 4, false, nil},
		{"each time", 1, 100, "0000:05:00.0-3", maxExclusive, true, nil},
		{"no other is free", 8, 1, "0000:05:00.0-0", 1, true, nil},
		{"too few others are free", 3, 2, "0000:05:00.0-0", 1, true, map[string]string{"0000:26:00.0-0": "a", "0000:26:00.0-1": "a", "0000:26:00.0-2": "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost()
			h.pounces, h.reserved = tt.pounces, tt.reserved
			r := ask(tt.n)
			r.Kind = unitname.ExclusiveLease
			l := acquire(t, newAllocator(h), alice, r)
			if got := l.Choice.Partitions[0].Name; got != tt.want || len(h.guarded) != tt.guarded || len(l.Replaced) != tt.guarded-1 || slices.Contains(l.Notes, note) != tt.noted {
				t.Errorf("got %s after %d leases, replaced %q, notes %q", got, len(h.guarded), l.Replaced, l.Notes)
			}
			if left := h.leases(); !slices.Equal(left, []string{l.Unit}) {
				t.Errorf("leases: got %q, want %s", left, l.Unit)
			}
		})
	}
}

func TestGuard_RunsWithoutLock(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	k.Limit(Limits{Shares: 2})
	exclusive, shared := ask(1), ask(1)
	exclusive.Kind, shared.Kind, shared.Of = unitname.ExclusiveLease, unitname.SharedLease, 2
	first, second := acquire(t, k, alice, exclusive), acquire(t, k, alice, shared)
	if want := []string{fmt.Sprint(second.Unit, " ", second.Nodes)}; !slices.Equal(h.reached, want) {
		t.Errorf("Reachable was called for %q, want %q", h.reached, want)
	}
	if want := []string{first.Unit, second.Unit}; !slices.Equal(h.guarded, want) {
		t.Errorf("dcm-guard ran for %q, want %q; notes: %q and %q", h.guarded, want, first.Notes, second.Notes)
	}
	if len(first.Notes) != 0 {
		t.Errorf("notes of an exclusive lease: got %q, want none", first.Notes)
	}
}

// TestAcquire_Concurrent starts and ends many leases concurrently. No partition has two holders.
func TestAcquire_Concurrent(t *testing.T) {
	h := newHost()
	k := newAllocator(h)
	h.onStart = func(s Scope) error {
		snapshot, _ := h.Snapshot(context.Background())
		for _, b := range Allocations(snapshot) {
			if slices.Contains(s.Allow, b.Render) && !b.Free() {
				return fmt.Errorf("%s is granted to %s, but %s has it", b.Name, s.Unit, b.Units)
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			var mine []string
			for range 300 {
				if len(mine) > 0 && r.IntN(2) == 0 {
					h.Stop(t.Context(), mine[0])
					mine = mine[1:]
					continue
				}
				l, err := k.Acquire(t.Context(), alice, ask(1+r.IntN(3)))
				var short *InsufficientError
				switch {
				case err == nil:
					mine = append(mine, l.Unit)
				case !errors.As(err, &short):
					t.Error(err)
				}
			}
			for _, unit := range mine {
				h.Stop(t.Context(), unit)
			}
		})
	}
	wg.Wait()
	snapshot, _ := h.Snapshot(t.Context())
	for _, b := range Allocations(snapshot) {
		if !b.Free() {
			t.Errorf("%s still has the holders %s", b.Name, b.Whose())
		}
	}
}
