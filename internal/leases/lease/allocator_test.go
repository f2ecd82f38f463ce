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
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// host simulates PID 1 and a node of two GPUs with four partitions each.
type host struct {
	mu       sync.Mutex
	tenants  []UnitDevices
	reserved map[string]string
	kind     string // the kind of every partition
	open     map[string][]string
	starts   map[int]uint64
	changing bool
	still    func() error // returns why no lease can start now
	onStart  func(Scope) error
	changed  chan struct{}
	guard    string
	pounces  int  // number of exclusive leases of alice whose partitions another process will open
	locked   bool // the lock of Lock is held
	unlocked *sync.Cond
	guarded  []string
	reached  []string
	alone    map[int]string // the lease in which a process is alone, by PID
	inside   map[int]string // the lease that a process shares with others, by PID
	terms    map[string]Term
	others   bool // another process has entered the lease that is replaced
	calls    int  // number of calls of Snapshot and Active
}

func newHost() *host {
	h := &host{starts: map[int]uint64{1: 1, 2: 2, 3: 3}, changed: make(chan struct{})}
	h.unlocked = sync.NewCond(&h.mu)
	return h
}

func parts() []runstate.Part {
	var out []runstate.Part
	for g, address := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		for i := range 4 {
			out = append(out, runstate.Part{
				Name: fmt.Sprintf("%s-%d", address, i), GPU: address, Index: i, Domain: i / 2,
				Render: fmt.Sprintf("/dev/dri/renderD%d", 128+8*g+i), Memory: 24 << 30,
			})
		}
	}
	return out
}

func (h *host) Active(_ context.Context, unit string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return slices.ContainsFunc(h.tenants, func(t UnitDevices) bool { return t.Unit == unit }), nil
}

func (h *host) Snapshot(context.Context) (Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	all := parts()
	for i := range all {
		all[i].Kind = h.kind
	}
	return Snapshot{Parts: all, Units: slices.Clone(h.tenants), Reserved: h.reserved, Open: h.open}, nil
}

func (h *host) Prepare(ctx context.Context, _ Caller) (Snapshot, Move, error) {
	snapshot, err := h.Snapshot(ctx)
	return snapshot, h, err
}

func (h *host) Close() {}

func (h *host) Start(_ context.Context, s Scope) ([]string, error) {
	if h.onStart != nil {
		if err := h.onStart(s); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tenants = append(h.tenants, UnitDevices{s.Unit, true, s.Allow})
	if before := h.alone[s.PID]; before != "" && !h.others { // a scope ends with its last process
		delete(h.alone, s.PID)
		h.tenants = slices.DeleteFunc(h.tenants, func(t UnitDevices) bool { return t.Unit == before })
		h.stir()
	}
	return nil, nil
}

// stir closes the channel of Changed: a unit has ended.
func (h *host) stir() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// leases returns the units that are leases.
func (h *host) leases() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, t := range h.tenants {
		if _, ok := unitname.ParseLease(t.Unit); ok {
			out = append(out, t.Unit)
		}
	}
	return out
}

func (h *host) Stop(_ context.Context, unit string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tenants = slices.DeleteFunc(h.tenants, func(t UnitDevices) bool { return t.Unit == unit })
	h.stir()
	return nil
}

func (h *host) Undo(ctx context.Context, unit string) error { return h.Stop(ctx, unit) }

// Check identifies a process by its start time, which is equal to its PID here.
func (h *host) Check(c Caller) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.starts[c.PID] != uint64(c.PID) {
		return fmt.Errorf("process %d: has ended", c.PID)
	}
	return nil
}

func (h *host) Lock() (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changing {
		return nil, ErrChanging
	}
	if h.still != nil {
		if err := h.still(); err != nil {
			return nil, err
		}
	}
	h.locked = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.locked = false
		h.unlocked.Broadcast()
	}, nil
}

func (h *host) LimitMemory(_ context.Context, unit string, c MemoryLimits) string {
	return h.afterwards(unit, "capped at "+c.String())
}

// Guard returns an OpenError for the first h.pounces leases.
func (h *host) Guard(_ context.Context, unit string) error {
	if why := h.afterwards(unit, h.guard); why != "" {
		return errors.New(why)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pounces == 0 {
		return nil
	}
	h.pounces--
	if h.open == nil {
		h.open = make(map[string][]string)
	}
	for _, held := range Allocations(Snapshot{Parts: parts(), Units: h.tenants}) {
		if slices.Contains(held.Units, unit) {
			h.open[held.Name] = []string{"grab[1507]"}
		}
	}
	if h.alone == nil {
		h.alone = make(map[int]string)
	}
	h.alone[alice.PID] = unit
	return &OpenError{[]string{"grab[1507] has it open"}}
}

func (h *host) Reachable(_ context.Context, unit string, nodes []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reached = append(h.reached, fmt.Sprint(unit, " ", nodes))
	return ""
}

// afterwards fails if the lock is held: dcm-guard.service may wait for a run that needs it.
func (h *host) afterwards(unit, answer string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.locked {
		over := time.AfterFunc(10*time.Second, h.unlocked.Broadcast)
		h.unlocked.Wait()
		if !over.Stop() {
			return "the lock is held"
		}
	}
	if !slices.ContainsFunc(h.tenants, func(t UnitDevices) bool { return t.Unit == unit }) {
		return unit + " is not up"
	}
	h.guarded = append(h.guarded, unit)
	return answer
}

func (h *host) Within(pid int) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if unit := h.inside[pid]; unit != "" {
		return unit, false
	}
	return h.alone[pid], h.alone[pid] != ""
}

func (h *host) Terms(_ context.Context, leases []string) (map[string]Term, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string]Term)
	for _, unit := range leases {
		out[unit] = h.terms[unit]
	}
	return out, nil
}

// Empty is called for the former lease of a process that was moved.
func (h *host) Empty(unit string) bool {
	if !h.others {
		h.Stop(context.Background(), unit)
	}
	return !h.others
}

func (h *host) Changed(context.Context) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func ask(n int) Request {
	return Request{Want: placement.Want{Partitions: n}, Kind: unitname.ConfinedLease, What: "true"}
}

var alice = Caller{UID: 1000, PID: 1}

func acquire(t *testing.T, k *Allocator, c Caller, r Request) Lease {
	t.Helper()
	l, err := k.Acquire(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

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
		}, ask(8), "8 partitions asked for, but 7 of 8 are free; the others have vllm.service"},
		{"open in a process", func(h *host) { h.open = map[string][]string{"0000:26:00.0-3": {"python[4711]"}} }, ask(8), "7 of 8 are free; the others have python[4711]"},
		{"a whole GPU", func(h *host) { h.open = map[string][]string{"0000:26:00.0-3": {"python[4711]"}} }, Request{Want: placement.Want{GPUs: 2}}, "2 whole GPUs asked for, but 1 of 2 is free; the others have python[4711]"},
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

func TestShares(t *testing.T) {
	k := newAllocator(newHost())
	k.Limit(Limits{Shares: 2})
	share := Request{Want: placement.Want{Partitions: 4, Among: []partition.Address{"0000:05:00.0"}}, Kind: unitname.SharedLease}
	first, second := acquire(t, k, alice, share), acquire(t, k, alice, share)
	if first.Choice.Reason != second.Choice.Reason {
		t.Errorf("choices: got %s and %s", first.Choice.Reason, second.Choice.Reason)
	}
	if _, err := k.Acquire(t.Context(), alice, share); err == nil {
		t.Error("a third lease got a partition that two share")
	}
	whole := ask(4)
	whole.Among = share.Among
	if _, err := k.Acquire(t.Context(), alice, whole); err == nil {
		t.Error("a shared partition was granted to an unshared lease")
	}
	if got, want := first.Notes[0], "capped at 48 GiB of 0000:05:00.0"; got != want {
		t.Errorf("note: got %q, want %q", got, want)
	}
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

// The number of leases that share a partition stays within the limit of each of them. A partition is
// filled before the next one is shared.
func TestSharesByNumber(t *testing.T) {
	k := newAllocator(newHost())
	one := func(of int) Request {
		return Request{Want: placement.Want{Partitions: 1, Place: placement.Spread}, Kind: unitname.SharedLease, Of: of}
	}
	if _, err := k.Acquire(t.Context(), alice, one(2)); err == nil || !strings.Contains(err.Error(), "shares = 1 in [leases]") {
		t.Errorf("sharing is not configured: got %v", err)
	}
	k.Limit(Limits{Shares: 3})
	for _, of := range []int{1, 4, 65} {
		if _, err := k.Acquire(t.Context(), alice, one(of)); err == nil {
			t.Errorf("a lease with the limit %d was granted", of)
		}
	}
	for _, of := range []int{3, 2, 3, 2, 0, 3, 2} { // 0 is the configured limit, 3
		acquire(t, k, alice, one(of))
	}
	has := make(map[string]int)
	snapshot, _ := k.host.Partitions.Snapshot(t.Context())
	for _, h := range Allocations(snapshot) {
		for _, unit := range h.Units {
			n, _ := unitname.ParseLease(unit)
			has[fmt.Sprintf("%s of %d", h.Name, n.Of)]++
		}
	}
	want := map[string]int{"0000:05:00.0-0 of 3": 3, "0000:26:00.0-0 of 2": 2, "0000:05:00.0-1 of 3": 1, "0000:26:00.0-1 of 2": 1}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("leases per partition (-want +got):\n%s", diff)
	}
}

func TestSharesOf(t *testing.T) {
	p := runstate.Partitions{Parts: []runstate.Part{
		{Name: "a-0", GPU: "0000:05:00.0", Render: "/dev/dri/renderD128", Memory: 24 << 30},
		{Name: "a-1", GPU: "0000:05:00.0", Render: "/dev/dri/renderD129", Memory: 24 << 30},
		{Name: "b-0", GPU: "0000:26:00.0", Render: "/dev/dri/renderD136", Memory: 96 << 30},
		{Name: "c-0", GPU: "0000:46:00.0", Render: "/dev/dri/renderD144"},
	}, Reservations: []runstate.Reservation{{Name: "w", Unit: "w@.service", Share: 2, Partitions: []string{"a-0"}}, {Name: "v", Unit: "v.service"}, {Name: "w-own", Unit: "w@own.service"}}}
	got := MemoryLimitsOf(p, map[string][]string{
		"dcm-share3-1000-00c0ffee.scope": {"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD136"},
		"dcm-share2-1000-00c0ffee.scope": {"/dev/dri/renderD144"}, "dcm-lease-1000-00c0ffee.scope": {"/dev/dri/renderD128"},
		"w@x.service": {"/dev/dcm/w/render0"}, "w@own.service": {"/dev/dcm/w-own/render0"}, "v.service": {"/dev/dri/renderD128"}, "v@1.service": {"/dev/dri/renderD128"},
	})
	want := map[string]MemoryLimits{
		"dcm-share3-1000-00c0ffee.scope": {"0000:05:00.0": 16 << 30, "0000:26:00.0": 32 << 30}, "dcm-share2-1000-00c0ffee.scope": nil,
		"w@x.service": {"0000:05:00.0": 12 << 30},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	for kind, of := range map[unitname.LeaseKind]int{unitname.ConfinedLease: 0, unitname.ExclusiveLease: 0, unitname.SharedLease: unitname.MaxShares} {
		n := unitname.Lease{Kind: kind, UID: 4294967294, ID: "00c0ffee", Of: of}
		if got, ok := unitname.ParseLease(n.String()); !ok || got != n {
			t.Errorf("%s is parsed as %+v, %v", n, got, ok)
		}
	}
	for _, unit := range []string{"dcm-lease-1000-00c0ffee.service", "dcm-lease--00c0ffee.scope", "dcm-lease-99999999999-00c0ffee.scope", "session-1.scope", "dcm-lease-4294967296-00c0ffee.scope",
		"dcm-share-1-00c0ffee.scope", "dcm-share1-1-00c0ffee.scope", "dcm-share65-1-00c0ffee.scope", "dcm-lease3-1-00c0ffee.scope"} {
		if n, ok := unitname.ParseLease(unit); ok {
			t.Errorf("%s is parsed as %+v", unit, n)
		}
	}
}

// Every user can read the description, and a backslash at its end would continue the line in the
// unit file.
func TestDescribe(t *testing.T) {
	choice := placement.Choice{Partitions: []runstate.Part{{Name: "0000:05:00.0-0"}}}
	for what, want := range map[string]string{
		"mysql -psecret":         "mysql",
		"/usr/bin/python3 a.py":  "python3",
		`sh -c 'sleep 1000' '\'`: "sh",
		`tool\\`:                 "tool",
		"":                       "unknown",
		" ":                      "unknown",
	} {
		if got, want := describe(Request{What: what}, choice), "Lease of 0000:05:00.0-0: "+want; got != want {
			t.Errorf("description of %q: got %q, want %q", what, got, want)
		}
	}
}
