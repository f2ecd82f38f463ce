package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// host simulates PID 1 and a node of two GPUs with four partitions each.
type host struct {
	mu         sync.Mutex
	tenants    []UnitDevices
	reserved   map[string]string
	kind       string // the kind of every partition
	open       map[string][]string
	awaited    map[string]string
	hours      []Hours
	cleaning   Cleaning
	made       map[string]string
	dynamic    []DynamicGPU
	unreadable error // of dynamic
	starts     map[int]uint64
	changing   bool
	still      func() error // returns why no lease can start now
	onStart    func(Scope) error
	changed    chan struct{}
	guard      string
	pounces    int  // number of exclusive leases of alice whose partitions another process will open
	locked     bool // the lock of Lock is held
	unlocked   *sync.Cond
	guarded    []string
	reached    []string
	alone      map[int]string // the lease in which a process is alone, by PID
	inside     map[int]string // the lease that a process shares with others, by PID
	terms      map[string]Term
	reload     time.Duration
	written    time.Duration // by the last Extend
	others     bool          // another process has entered the lease that is replaced
	empty      []string      // leases whose scopes PID 1 has not removed yet
	calls      int           // number of calls of Snapshot and Active
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
	return Snapshot{Parts: all, Units: slices.Clone(h.tenants), Reserved: h.reserved, Open: h.open, Awaited: h.awaited, Made: h.made, Dynamic: h.readDynamic, Hours: h.hours, Cleaning: h.cleaning}, nil
}

func (h *host) readDynamic() ([]DynamicGPU, error) { return h.dynamic, h.unreadable }

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
		term, ok := h.terms[unit]
		if ok || slices.ContainsFunc(h.tenants, func(t UnitDevices) bool { return t.Unit == unit }) {
			out[unit] = term
		}
	}
	return out, nil
}

// Extend writes the limit, and reads it after a reload, as PID 1 needs it.
func (h *host) Extend(_ context.Context, unit string, limit time.Duration) error {
	h.mu.Lock()
	h.written = limit
	h.mu.Unlock()
	time.Sleep(h.reload)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written != limit {
		return fmt.Errorf("systemd has not taken over the time limit (found %s, want %s)", h.written, limit)
	}
	h.terms[unit] = Term{h.terms[unit].Began, limit}
	return nil
}

// Empty counts a lease that has made an instance as active, even if it is not among the tenants.
func (h *host) Empty(unit string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	active := slices.ContainsFunc(h.tenants, func(t UnitDevices) bool { return t.Unit == unit }) ||
		slices.ContainsFunc(h.dynamic, func(g DynamicGPU) bool {
			return slices.ContainsFunc(g.Made, func(m made.Name) bool { return m.Lease == unit })
		})
	return !active || slices.Contains(h.empty, unit)
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
