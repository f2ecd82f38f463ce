package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

const (
	first  partition.Address = "0000:05:00.0"
	second partition.Address = "0000:26:00.0"
)

// modeHost is a host with two dynamic GPUs in SPX, of which claims have set some to other modes.
type modeHost struct {
	*host
	modes    map[partition.Address]*ModeGPU
	awaited  map[partition.Address]string
	claims   map[partition.Address]made.Name
	reserved map[string]string
}

func newModeHost() *modeHost {
	h := &modeHost{host: newHost(), modes: make(map[partition.Address]*ModeGPU), awaited: make(map[partition.Address]string), claims: make(map[partition.Address]made.Name)}
	for _, gpu := range []partition.Address{first, second} {
		h.modes[gpu] = &ModeGPU{XCC: 8, Now: partition.SPX, Rest: partition.SPX, Available: []partition.Compute{partition.SPX, partition.DPX, partition.QPX, partition.CPX}}
	}
	return h
}

// set sets the mode of a GPU for leases.
func (h *modeHost) set(gpu partition.Address, mode partition.Compute) {
	h.modes[gpu].Now = mode
	h.claims[gpu] = made.Name{GPU: gpu, Profile: string(mode), Rest: h.modes[gpu].Rest}
}

// give adds a lease of partitions.
func (h *modeHost) give(unit string, gpu partition.Address, indices ...int) {
	u := UnitDevices{Unit: unit, Active: true}
	for _, i := range indices {
		u.Allowed = append(u.Allowed, render(gpu, i))
	}
	h.tenants = append(h.tenants, u)
}

func render(gpu partition.Address, index int) string {
	at := 128
	if gpu == second {
		at = 136
	}
	return fmt.Sprintf("/dev/dri/renderD%d", at+index)
}

func (h *modeHost) Snapshot(context.Context) (Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Snapshot{Units: slices.Clone(h.tenants), Reserved: h.reserved, Open: h.open, Switched: maps.Clone(h.claims)}
	var gpus []DynamicGPU
	for _, gpu := range []partition.Address{first, second} {
		m := *h.modes[gpu]
		gpus = append(gpus, DynamicGPU{GPU: gpu, Modes: &m, Awaited: h.awaited[gpu]})
		for i := range m.Now.Partitions(m.XCC) {
			s.Parts = append(s.Parts, runstate.Part{Name: runstate.PartName(gpu, i), GPU: gpu, Index: i, Render: render(gpu, i), Kind: "amd " + string(m.Now) + "/NPS1"})
		}
	}
	s.Dynamic = func() ([]DynamicGPU, error) { return gpus, nil }
	return s, nil
}

func (h *modeHost) Prepare(ctx context.Context, _ Caller) (Snapshot, Move, error) {
	s, err := h.Snapshot(ctx)
	return s, h, err
}

func (h *modeHost) allocator() *Allocator {
	return New(Config{Host: Host{h, h, h, h}, Common: []string{CommonNode}})
}

func askMode(mode string, n int) Request {
	return Request{Make: mode, Want: placement.Want{Partitions: n}, Kind: unitname.ConfinedLease}
}

func TestAcquire_SwitchesGPU(t *testing.T) {
	h := newModeHost()
	var started Scope
	h.onStart = func(s Scope) error { started = s; return nil }
	l := acquire(t, h.allocator(), alice, askMode("CPX", 3))
	name := made.Name{GPU: first, Profile: "CPX", Rest: partition.SPX}
	want := []string{CommonNode, name.Node(0), name.Node(1), name.Node(2)}
	if !slices.Equal(started.Allow, want) || started.Requires != name.Unit() || started.Wants != name.Keeper() {
		t.Errorf("scope: %+v, want %q of %s", started, want, name)
	}
	if p := l.Choice.Partitions; len(p) != 3 || p[2].Name != "0000:05:00.0-2" || p[2].Kind != "amd CPX" {
		t.Errorf("partitions: got %+v", p)
	}
}

// The GPU that leases have set to the mode is used first, although another one is idle.
func TestAcquire_SharesMadeMode(t *testing.T) {
	h := newModeHost()
	h.set(second, partition.CPX)
	h.give("dcm-lease-1001-4f1c09aa.scope", second, 0, 1, 2)
	var started Scope
	h.onStart = func(s Scope) error { started = s; return nil }
	l := acquire(t, h.allocator(), alice, askMode("CPX", 4))
	if started.Requires != h.claims[second].Unit() || started.Allow[1] != h.claims[second].Node(l.Choice.Partitions[0].Index) {
		t.Errorf("scope: %+v", started)
	}
	for _, p := range l.Choice.Partitions {
		if p.GPU != second || p.Index < 3 {
			t.Errorf("%s is given twice or not of %s", p.Name, second)
		}
	}
}

func TestAcquire_NoMode(t *testing.T) {
	const holder = "dcm-lease-1001-4f1c09aa.scope"
	for _, tt := range []struct {
		name    string
		mode    string
		n       int
		prepare func(*modeHost)
		passes  bool
		texts   []string
	}{
		{"no dynamic GPU", "CPX", 1, func(h *modeHost) {
			h.modes[first].Available, h.modes[second].Available = nil, nil
			h.modes[first].Refused, h.modes[second].Refused = "no", "no"
		}, false, []string{"no"}},
		{"mode of no GPU", "TPX", 1, func(*modeHost) {}, false, []string{"the mode TPX is not available"}},
		{"too many", "CPX", 9, func(*modeHost) {}, false, []string{"8 partitions in CPX"}},
		{"older driver", "CPX", 1, func(h *modeHost) { h.modes[first].Refused, h.modes[second].Refused = "older driver", "older driver" }, false, []string{"older driver"}},
		{"leases", "CPX", 1, func(h *modeHost) { h.give(holder, first, 0); h.give("train.service", second, 0) }, true, []string{"in use", holder, "train.service"}},
		{"processes", "CPX", 1, func(h *modeHost) {
			h.modes[first].Users, h.modes[second].Users = []string{"python[7]"}, []string{"train.service"}
		}, true, []string{"python[7]", "train.service"}},
		{"other mode", "CPX", 1, func(h *modeHost) {
			h.set(first, partition.DPX)
			h.set(second, partition.QPX)
			h.give(holder, second, 1)
		}, true, []string{"leases have set DPX", holder, h0}},
		{"full", "DPX", 2, func(h *modeHost) {
			h.set(first, partition.DPX)
			h.give(holder, first, 0)
			h.give("a.service", second, 0)
		}, true, []string{"1 of 2 partitions are free", holder}},
		{"still to be switched back", "CPX", 1, func(h *modeHost) {
			h.set(first, partition.CPX)
			h.modes[first].Now = partition.SPX
			h.give("a.service", second, 0)
		}, true, []string{"leases have set CPX"}},
		{"switched recently", "CPX", 1, func(h *modeHost) { h.modes[first].Recent, h.modes[second].Recent = "just now", "just now" }, true, []string{"just now"}},
		{"awaited", "CPX", 1, func(h *modeHost) { h.awaited[first], h.awaited[second] = "dcm apply", "dcm apply" }, true, []string{"dcm apply waits"}},
		{"to be changed", "CPX", 1, func(h *modeHost) { h.modes[first].Rest, h.modes[second].Rest = partition.DPX, partition.DPX }, true, []string{"from SPX to DPX"}},
		{"reserved", "CPX", 1, func(h *modeHost) { h.reserved = map[string]string{"0000:05:00.0-0": "vllm", "0000:26:00.0-0": "vllm"} }, false, []string{"reservation vllm"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newModeHost()
			tt.prepare(h)
			_, err := h.allocator().Acquire(t.Context(), alice, askMode(tt.mode, tt.n))
			if err == nil || Passes(err) != tt.passes {
				t.Fatalf("error: got %v, want one that passes: %t", err, tt.passes)
			}
			if _, never := errors.AsType[*ImpossibleError](err); never == tt.passes {
				t.Errorf("%v is permanent: %t", err, never)
			}
			if strings.Contains(err.Error(), "dcm-make@") {
				t.Errorf("error: want no unit of dcm among the holders, got %v", err)
			}
			for _, text := range tt.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error: want %q in %v", text, err)
				}
			}
		})
	}
}

// A GPU that is being switched back is not taken, also if that shows only when the lease starts.
func TestAcquire_SwitchedBack(t *testing.T) {
	for _, tt := range []struct {
		name    string
		listed  bool // the first reading shows it already
		both    bool // the other GPU is in use
		started partition.Address
	}{
		{"the other", true, false, second},
		{"the other, at the start", false, false, second},
		{"none", true, true, ""},
		{"none, at the start", false, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newModeHost()
			h.set(first, partition.CPX)
			h.modes[first].Returning = tt.listed
			if tt.both {
				h.give("a.service", second, 0)
			}
			h.onStart = func(s Scope) error {
				if s.Requires != h.claims[first].Unit() {
					return nil
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				h.modes[first].Returning = true
				return fmt.Errorf("%w: %s", ErrEnding, s.Requires)
			}
			l, err := h.allocator().Acquire(t.Context(), alice, askMode("CPX", 1))
			if tt.started == "" {
				if err == nil || !insufficient(err) || !strings.Contains(err.Error(), "being switched back to SPX") {
					t.Fatalf("got %+v, %v", l, err)
				}
				return
			}
			if err != nil || l.Choice.Partitions[0].GPU != tt.started {
				t.Errorf("got %+v, %v; want a partition of %s", l, err, tt.started)
			}
		})
	}
}

// A request that waits starts when the GPU was switched back.
func TestAcquire_WaitsForTheSwitchBack(t *testing.T) {
	h := newModeHost()
	h.set(first, partition.CPX)
	h.give("a.service", second, 0)
	h.onStart = func(s Scope) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.modes[first].Now == partition.CPX {
			h.modes[first].Returning = true
			go func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.modes[first].Returning, h.modes[first].Now = false, partition.SPX
				delete(h.claims, first)
				h.stir()
			}()
			return fmt.Errorf("%w: %s", ErrEnding, s.Requires)
		}
		return nil
	}
	r := askMode("CPX", 1)
	r.Wait = true
	l := acquire(t, h.allocator(), alice, r)
	if l.Choice.Partitions[0].GPU != first {
		t.Errorf("got %+v", l)
	}
}

const h0 = "0000:05:00.0"

// Other leases get no partitions of a GPU whose mode leases have set, and wait until it is switched back.
func TestAcquire_MadeModeNotForOthers(t *testing.T) {
	h := newModeHost()
	h.set(first, partition.CPX)
	h.set(second, partition.CPX)
	_, err := h.allocator().Acquire(t.Context(), alice, ask(1))
	if err == nil || !Passes(err) || !strings.Contains(err.Error(), "the others have leases with --make CPX") {
		t.Errorf("a partition: got %v, want a temporary error that names the mode", err)
	}
	r := ask(1)
	r.Sought, _ = partition.ParseCriteria("", "SPX")
	if _, err := h.allocator().Acquire(t.Context(), alice, r); err == nil || !Passes(err) {
		t.Errorf("a partition in SPX: got %v, want a temporary error", err)
	}
	if _, err := h.allocator().Acquire(t.Context(), alice, ask(3)); err == nil || Passes(err) {
		t.Errorf("three partitions: got %v, want a permanent error", err)
	}
}

// The limit counts XCCs: a partition in DPX has four of the eight.
func TestAcquire_ShareLimit(t *testing.T) {
	h := newModeHost()
	h.set(first, partition.DPX)
	h.give("dcm-lease-1000-4f1c09aa.scope", first, 0)
	h.give("dcm-lease-1001-4f1c09ab.scope", first, 1)
	h.onStart = func(Scope) error { return nil }
	a := h.allocator()
	a.Limit(Limits{Slots: 6})
	_, err := a.Acquire(t.Context(), alice, askMode("CPX", 3))
	if want := "3 more would exceed max-slots-per-user in [leases] = 6: 4 in use"; err == nil || err.Error() != want || !Passes(err) {
		t.Errorf("over the limit: got %v, want %q", err, want)
	}
	if _, err := a.Acquire(t.Context(), alice, askMode("CPX", 2)); err != nil {
		t.Errorf("within the limit: %v", err)
	}
}

// A caller that has the lease already keeps it.
func TestAcquire_KeepsMadeMode(t *testing.T) {
	h := newModeHost()
	h.set(first, partition.CPX)
	const unit = "dcm-lease-1000-4f1c09aa.scope"
	h.give(unit, first, 2, 3)
	h.alone = map[int]string{alice.PID: unit}
	h.onStart = func(s Scope) error { t.Errorf("%s was started", s.Unit); return nil }
	if l := acquire(t, h.allocator(), alice, askMode("CPX", 2)); l.Unit != unit || len(l.Choice.Partitions) != 2 {
		t.Errorf("got %+v", l)
	}
}

// sharedHost switches a GPU at the start of a lease that requires it, and follows the links to its nodes.
type sharedHost struct{ *modeHost }

func (h sharedHost) Prepare(ctx context.Context, _ Caller) (Snapshot, Move, error) {
	s, err := h.Snapshot(ctx)
	return s, h, err
}

func (h sharedHost) Start(ctx context.Context, s Scope) ([]string, error) {
	n, err := made.Parse(strings.TrimSuffix(strings.TrimPrefix(s.Requires, "dcm-make@"), ".service"))
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.set(n.GPU, partition.Compute(n.Profile))
	h.mu.Unlock()
	for i := range partition.MaxPartitions {
		if at := slices.Index(s.Allow, n.Node(i)); at >= 0 {
			s.Allow[at] = render(n.GPU, i)
		}
	}
	return h.host.Start(ctx, s)
}

// Two leases share a GPU that the first has switched. A third request waits for the end of the first, and
// no partition has two holders.
func TestAcquire_WaitsForMadeMode(t *testing.T) {
	h := sharedHost{newModeHost()}
	h.give("train.service", second, 0)
	a := New(Config{Host: Host{h, h, h, h}, Common: []string{CommonNode}})
	bob, carol := Caller{UID: 1001, PID: 2}, Caller{UID: 1002, PID: 3}
	one := acquire(t, a, alice, askMode("CPX", 3))
	two := acquire(t, a, bob, askMode("CPX", 4))
	r := askMode("CPX", 3)
	if _, err := a.Acquire(t.Context(), carol, r); !Passes(err) || !strings.Contains(err.Error(), one.Unit) || !strings.Contains(err.Error(), two.Unit) {
		t.Errorf("third request: got %v, want the two leases", err)
	}
	waits, given := make(chan struct{}, 1), make(chan Lease, 1)
	r.Wait, r.Moved = true, func(Queued, int) {
		select {
		case waits <- struct{}{}:
		default:
		}
	}
	go func() {
		l, err := a.Acquire(t.Context(), carol, r)
		if err != nil {
			t.Error(err)
		}
		given <- l
	}()
	<-waits
	if err := h.Stop(t.Context(), one.Unit); err != nil {
		t.Fatal(err)
	}
	three := <-given
	held := make(map[string]string)
	for _, l := range []Lease{two, three} {
		for _, p := range l.Choice.Partitions {
			if held[p.Name] != "" || p.GPU != first {
				t.Errorf("%s of %s is held by %s", p.Name, l.Unit, held[p.Name])
			}
			held[p.Name] = l.Unit
		}
	}
	if len(held) != 7 {
		t.Errorf("held: got %v, want 7 partitions", held)
	}
}
