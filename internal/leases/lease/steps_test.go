package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/soak"
)

// TestTenThousandSteps acquires, releases and kills leases at random, while daemons end, reservations
// change and GPUs are partitioned. After each step it checks that no partition has two holders, that
// none is lost, and that the guard's table has exactly the exclusive ones. DCM_SEED repeats the choices
// of a run.
func TestTenThousandSteps(t *testing.T) {
	seed := soak.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		for step := 0; step < 10_000 && !t.Failed(); step++ {
			w.step()
			synctest.Wait() // until the queue was served
			w.check(step)
		}
		w.leave()
		t.Log(w.count)
	})
}

// world simulates PID 1, a node of two GPUs, and callers. The units are in host. The granted partitions
// are recorded here a second time, for comparison.
type world struct {
	*host
	t      *testing.T
	rand   *rand.Rand
	keeper *Allocator
	parts  []runstate.Part
	list   []runstate.Reservation // the configured reservations
	grants map[string]Grant
	down   map[string]bool // inactive services
	fate   string          // the error of the next start of a scope
	given  map[string]map[string]bool
	count  map[string]int
	done   context.CancelFunc // of the waiting requests
	ctx    context.Context
}

const mostShares = 3

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		host: newHost(), t: t, rand: rand.New(rand.NewPCG(seed, 10)), grants: make(map[string]Grant), down: make(map[string]bool),
		given: make(map[string]map[string]bool), count: make(map[string]int),
	}
	w.ctx, w.done = context.WithCancel(t.Context())
	w.split(4)
	w.restart()
	return w
}

// restart replaces the daemon by a new one without state. Waiting callers lose their connections.
func (w *world) restart() {
	w.done()
	synctest.Wait()
	w.ctx, w.done = context.WithCancel(w.t.Context())
	w.keeper = New(Config{Host: hostOf(w), Common: []string{"/dev/kfd"}})
	w.keeper.Limit(Limits{Shares: mostShares, PerUser: 12})
}

// split partitions each GPU into n partitions.
func (w *world) split(n int) {
	w.parts = nil
	for g, address := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		for i := range n {
			w.parts = append(w.parts, runstate.Part{
				Name: fmt.Sprintf("%s-%d", address, i), GPU: address, Index: i, Domain: i / 2,
				Render: fmt.Sprintf("/dev/dri/renderD%d", 128+8*g+i), Memory: 24 << 30,
			})
		}
	}
}

func (w *world) Snapshot(context.Context) (Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Snapshot{Parts: w.parts, Units: slices.Clone(w.tenants), Reserved: w.kept(), Open: maps.Clone(w.open)}, nil
}

func (w *world) Prepare(ctx context.Context, _ Caller) (Snapshot, Move, error) {
	snapshot, err := w.Snapshot(ctx)
	return snapshot, w, err
}

func (w *world) kept() map[string]string {
	out := make(map[string]string)
	for name, g := range w.grants {
		for _, p := range g.Partitions {
			out[p] = name
		}
	}
	return out
}

// Start simulates PID 1. w.fate determines which error occurs.
func (w *world) Start(_ context.Context, s Scope) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fate == "refused" {
		return nil, errors.New("refused")
	}
	name, _ := unitname.ParseLease(s.Unit)
	for _, node := range s.Allow[1:] {
		for unit, nodes := range w.given {
			other, _ := unitname.ParseLease(unit)
			if nodes[node] && (name.Kind != unitname.SharedLease || other.Kind != unitname.SharedLease) {
				w.t.Errorf("%s got %s, which %s has", s.Unit, node, unit)
			}
		}
		if r, ok := w.kept()[w.named(node)]; ok {
			w.t.Errorf("%s got %s, which is reserved for %s", s.Unit, node, r)
		}
	}
	w.tenants = append(w.tenants, UnitDevices{s.Unit, true, s.Allow})
	w.given[s.Unit] = make(map[string]bool)
	for _, node := range s.Allow[1:] {
		w.given[s.Unit][node] = true
	}
	switch w.fate {
	case "answer lost": // a daemon-reexec, or the daemon was killed
		return nil, errors.New("no answer")
	case "another process":
		w.starts[1] = 99
	}
	return nil, nil
}

func (w *world) named(node string) string {
	i := slices.IndexFunc(w.parts, func(p runstate.Part) bool { return p.Render == node })
	return w.parts[i].Name
}

func (w *world) Stop(ctx context.Context, unit string) error {
	w.mu.Lock()
	delete(w.given, unit)
	w.mu.Unlock()
	return w.host.Stop(ctx, unit)
}

func (w *world) Undo(ctx context.Context, unit string) error { return w.Stop(ctx, unit) }

// step does one random action.
func (w *world) step() {
	step := soak.Pick(w.rand, []soak.Step{
		{Name: "acquire", Weight: 40, Do: func() { w.acquire(false) }},
		{Name: "acquire and wait", Weight: 6, Do: func() { w.acquire(true) }},
		{Name: "release", Weight: 12, Do: w.release},
		{Name: "kill of a holder", Weight: 18, Do: w.kill},
		{Name: "kill of the daemon", Weight: 4, Do: w.restart},
		{Name: "start that goes wrong", Weight: 5, Do: w.wrong},
		{Name: "stray process", Weight: 3, Do: w.stray},
		{Name: "change of reservations", Weight: 4, Do: w.reserve},
		{Name: "service goes or comes", Weight: 4, Do: w.service},
		{Name: "repartition", Weight: 4, Do: w.repartition},
	})
	w.count[step.Name]++
	step.Do()
}

func (w *world) acquire(wait bool) {
	r := Request{Want: placement.Want{Partitions: 1 + w.rand.IntN(4)}, Kind: []unitname.LeaseKind{unitname.ConfinedLease, unitname.ConfinedLease, unitname.ExclusiveLease, unitname.SharedLease}[w.rand.IntN(4)], Wait: wait}
	r.Place = placement.Places()[w.rand.IntN(3)]
	if w.rand.IntN(10) == 0 {
		r.Partitions, r.GPUs = 0, 1
	}
	if r.Kind == unitname.SharedLease {
		r.Of = []int{0, 2, 3}[w.rand.IntN(3)]
	}
	c := Caller{UID: []uint32{0, 1000, 1001}[w.rand.IntN(3)], PID: 1}
	k := w.keeper
	ask := func(ctx context.Context) {
		_, err := k.Acquire(ctx, c, r)
		var short *InsufficientError
		var limit *LimitError
		var impossible *ImpossibleError
		switch {
		case err == nil:
			w.record("given")
		case errors.As(err, &short) || errors.As(err, &limit) || errors.As(err, &impossible) || ctx.Err() != nil || w.fate != "":
		default:
			w.t.Errorf("%+v: %v", r, err)
		}
	}
	if !wait {
		ask(w.ctx)
		synctest.Wait() // until the queue is served
		return
	}
	patience := time.Duration(1+w.rand.IntN(20)) * time.Minute
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	go func() {
		defer cancel()
		ask(ctx)
	}()
	synctest.Wait()
	<-time.After(time.Minute) // in the time of the bubble: some callers give up
}

func (w *world) record(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[what]++
}

// anyLease returns a lease, "" if there is none.
func (w *world) anyLease() string {
	units := slices.Sorted(maps.Keys(w.given))
	units = slices.DeleteFunc(units, func(unit string) bool { _, ok := unitname.ParseLease(unit); return !ok })
	if len(units) == 0 {
		return ""
	}
	return units[w.rand.IntN(len(units))]
}

func (w *world) release() {
	unit := w.anyLease()
	uid := []uint32{0, 1000, 1001}[w.rand.IntN(3)]
	name, ok := unitname.ParseLease(unit)
	err := w.keeper.Release(w.t.Context(), uid, unit)
	if may := ok && (uid == 0 || uid == name.UID); (err == nil) != may {
		w.t.Errorf("Release of %[2]q by user %[1]d: %[3]v", uid, unit, err)
	}
}

// kill ends a scope without a call of dcm.
func (w *world) kill() {
	if unit := w.anyLease(); unit != "" {
		w.Stop(w.t.Context(), unit)
	}
}

func (w *world) wrong() {
	w.fate = []string{"refused", "answer lost", "another process"}[w.rand.IntN(3)]
	w.acquire(false)
	w.fate, w.starts[1] = "", 1
}

// stray lets a process keep a partition open after its lease. The second call ends the process.
func (w *world) stray() {
	if len(w.open) > 0 {
		w.open = nil
		w.Stop(w.t.Context(), "") // wakes the queue
		return
	}
	p := w.parts[w.rand.IntN(len(w.parts))]
	w.open = map[string][]string{p.Name: {"python[4711]"}}
}

func (w *world) reserve() {
	w.list = nil
	for _, name := range []string{"a", "b", "c"} {
		if n := w.rand.IntN(4); n > 0 {
			w.list = append(w.list, runstate.Reservation{Name: name, Unit: name + ".service", Wants: n, Exclusive: w.rand.IntN(2) == 0})
		}
	}
	w.choose()
}

// choose chooses partitions as dcm-reserve.service does. Services whose partitions change are stopped meanwhile.
func (w *world) choose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var want []Reservation
	now := make(map[string][]string)
	for _, r := range w.list {
		want = append(want, Reservation{Name: r.Name, Want: placement.Want{Partitions: r.Wants}})
		now[r.Name] = w.grants[r.Name].Nodes
	}
	var leased []string
	for _, t := range w.tenants {
		if _, ok := unitname.ParseLease(t.Unit); ok {
			leased = append(leased, t.Allowed...)
		}
	}
	w.grants, _ = Reserve(w.parts, want, now, leased) // a reservation that cannot be met has no partitions
	w.serve()
}

// serve starts the services that can start.
func (w *world) serve() {
	w.tenants = slices.DeleteFunc(w.tenants, func(t UnitDevices) bool { _, ok := unitname.ParseLease(t.Unit); return !ok })
	for _, name := range []string{"a", "b", "c"} {
		unit := name + ".service"
		delete(w.given, unit)
		if nodes := w.grants[name].Nodes; len(nodes) > 0 && !w.down[name] {
			w.tenants = append(w.tenants, UnitDevices{unit, true, nodes})
			w.given[unit] = make(map[string]bool)
			for _, node := range nodes {
				w.given[unit][node] = true
			}
		}
	}
}

func (w *world) service() {
	name := []string{"a", "b", "c"}[w.rand.IntN(3)]
	w.down[name] = !w.down[name]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serve()
}

// repartition changes the partitions unless there are leases, as a run does.
func (w *world) repartition() {
	w.changing = true
	if _, err := w.keeper.Acquire(w.t.Context(), alice, ask(1)); err == nil {
		w.t.Error("a lease started while the GPUs are partitioned")
	}
	synctest.Wait()
	w.changing = false
	for unit := range w.given {
		if _, ok := unitname.ParseLease(unit); ok && w.rand.IntN(3) > 0 {
			return
		}
	}
	for unit := w.anyLease(); unit != ""; unit = w.anyLease() {
		w.Stop(w.t.Context(), unit)
		synctest.Wait() // waiting requests may start now
	}
	w.open = nil
	w.split([]int{1, 2, 4, 8}[w.rand.IntN(4)])
	w.choose()
	w.Stop(w.t.Context(), "")
}
