package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// fakeLeases are the leases of a test.
type fakeLeases struct {
	units   []string
	changed chan struct{}
	fails   error // of the watch
	mu      sync.Mutex
	log     []string
	overs   int // number of calls of over
}

func (f *fakeLeases) lifetimes(now func() time.Time) *lifetimes {
	return &lifetimes{
		units: func() []string {
			f.mu.Lock()
			defer f.mu.Unlock()
			return slices.Clone(f.units)
		},
		watch: func(context.Context) (<-chan struct{}, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.changed, f.fails
		},
		record: func(_ context.Context, l status.Lease, at string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.log = append(f.log, at+" "+l.Lease)
		},
		over: func() { f.edit(func() { f.overs++ }) },
		now:  now, log: slog.New(slog.DiscardHandler),
		live: make(map[string]life), ended: make(map[string]float64), labels: map[uint32]string{7: "ada", 8: "bob"},
	}
}

// edit changes what the code under test reads.
func (f *fakeLeases) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeLeases) end(unit string) {
	f.edit(func() { f.units = slices.DeleteFunc(f.units, func(other string) bool { return other == unit }) })
	f.changed <- struct{}{}
	synctest.Wait()
}

// The end of a lease that is too short for counters is reported too.
func TestLifetimes_Over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLeases{changed: make(chan struct{}), units: []string{"short", "long"}}
		l := f.lifetimes(time.Now)
		for _, unit := range []string{"short", "long"} {
			l.begin(t.Context(), status.Lease{Lease: unit, UID: 7, Since: time.Now()})
		}
		synctest.Wait()
		for i, unit := range []string{"short", "long"} {
			f.end(unit)
			if f.edit(func() {}); f.overs != i+1 {
				t.Errorf("after the end of %s: %d calls", unit, f.overs)
			}
			time.Sleep(2 * countDelay)
		}
	})
}

func TestLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLeases{changed: make(chan struct{})}
		l := f.lifetimes(time.Now)
		begin := func(unit string, uid uint32, share, parts int) {
			f.edit(func() { f.units = append(f.units, unit) })
			l.begin(t.Context(), status.Lease{Lease: unit, UID: uid, Share: share, Partitions: make([]string, parts), Since: time.Now()})
			synctest.Wait()
		}
		seconds := func(want string) {
			t.Helper()
			rounded := l.seconds()
			for user, n := range rounded {
				rounded[user] = math.Round(n)
			}
			if got := fmt.Sprint(rounded); got != want {
				t.Errorf("partition-seconds: got %s, want %s", got, want)
			}
		}
		seconds("map[]")
		begin("a", 7, 0, 2)
		time.Sleep(10 * time.Second)
		seconds("map[ada:20]")
		begin("b", 8, 4, 2)
		time.Sleep(time.Microsecond) // for the order of the entries
		begin("c", 7, 0, 1)
		f.end("a")
		time.Sleep(4 * time.Second)
		seconds("map[ada:24 bob:2]")
		f.end("c")
		f.end("b")
		time.Sleep(time.Minute)
		seconds("map[ada:24 bob:2]")
		f.edit(func() { f.fails = errors.New("no more watches") })
		begin("d", 8, 0, 1) // follows again
		time.Sleep(3 * time.Second)
		f.edit(func() { f.units = nil }) // without an event
		time.Sleep(changePollInterval)
		synctest.Wait()
		seconds("map[ada:24 bob:17]") // noticed 15 seconds after its start
		f.edit(func() { f.fails = nil })
		begin("e", 8, 0, 1) // too short for counters
		time.Sleep(countDelay / 2)
		f.end("e")
		time.Sleep(countDelay)
		want := []string{"start a", "end a", "start b", "start c", "end c", "end b", "start d", "end d"}
		if !slices.Equal(f.log, want) {
			t.Errorf("counters: got %q, want %q", f.log, want)
		}
		if l.following || len(l.live) > 0 {
			t.Errorf("without leases: still following %v", l.live)
		}
	})
}

// A daemon continues with the leases of the one before, and counts them from its own start.
func TestLifetimes_Resumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLeases{units: []string{"a"}, changed: make(chan struct{})}
		l := f.lifetimes(time.Now)
		l.resume(t.Context(), []status.Lease{{Lease: "a", UID: 7, Partitions: make([]string, 1), Since: time.Now().Add(-time.Hour)}})
		time.Sleep(5 * time.Second)
		f.end("a")
		if got := fmt.Sprint(l.seconds()); got != "map[ada:5]" || !slices.Equal(f.log, []string{"end a"}) {
			t.Errorf("partition-seconds: got %s with %q, want 5 and the end", got, f.log)
		}
	})
}

func TestLifetimes_BoundedLabels(t *testing.T) {
	now := time.Unix(1000, 0)
	f := &fakeLeases{changed: make(chan struct{})}
	l := f.lifetimes(func() time.Time { return now })
	l.following = true // nothing ends
	for uid := range uint32(10_000) {
		l.add(t.Context(), life{Lease: status.Lease{Lease: fmt.Sprint(uid), UID: 1_000_000 + uid, Partitions: make([]string, 1), Since: now.Add(-time.Second)}})
	}
	got := l.seconds()
	if want := 10_000 - maxUserLabels + 2.0; len(got) != maxUserLabels-2+1 || got[otherUsers] != want {
		t.Errorf("labels of 10,000 users: got %d with %v for the others, want %d and %v", len(got), got[otherUsers], maxUserLabels-2+1, want)
	}
}

func TestCounterTexts(t *testing.T) {
	const a, b = partition.Address("0000:05:00.0"), partition.Address("0000:26:00.0")
	part := func(g partition.Address, index, of int) gpu.CountedPartition {
		return gpu.CountedPartition{GPU: g, Index: index, Of: of}
	}
	counted := func(g partition.Address, index int, sum, cycles, energy uint64) gpu.PartitionCounters {
		return gpu.PartitionCounters{GPU: g, Index: index, Busy: gpu.BusyCounter{Sum: sum, Cycles: cycles}, Energy: energy}
	}
	for _, tt := range []struct {
		name         string
		list         []gpu.CountedPartition
		counted      []gpu.PartitionCounters
		alone        bool
		busy, energy string
	}{
		{"nothing", nil, nil, true, "[]", "[]"},
		{"a whole GPU", []gpu.CountedPartition{part(a, 0, 1)}, []gpu.PartitionCounters{counted(a, 0, 5, 7, 9)}, true, "[0000:05:00.0-0 5 7]", "[0000:05:00.0 9]"},
		{"a shared GPU", []gpu.CountedPartition{part(a, 0, 1)}, []gpu.PartitionCounters{counted(a, 0, 5, 7, 9)}, false, "[0000:05:00.0-0 5 7]", "[]"},
		{"part of a GPU", []gpu.CountedPartition{part(a, 1, 2)}, []gpu.PartitionCounters{counted(a, 1, 5, 7, 9)}, true, "[0000:05:00.0-1 5 7]", "[]"},
		{"all of one and part of another", []gpu.CountedPartition{part(a, 0, 2), part(a, 1, 2), part(b, 0, 2)},
			[]gpu.PartitionCounters{counted(a, 0, 1, 7, 9), counted(a, 1, 2, 7, 9), counted(b, 0, 3, 7, 8)}, true, "[0000:05:00.0-0 1 7 0000:05:00.0-1 2 7 0000:26:00.0-0 3 7]", "[0000:05:00.0 9]"},
		{"no counters", []gpu.CountedPartition{part(a, 0, 1)}, []gpu.PartitionCounters{counted(a, 0, 0, 0, 0)}, true, "[]", "[]"},
	} {
		busy, energy := counterTexts(tt.list, tt.counted, tt.alone)
		if fmt.Sprint(busy) != tt.busy || fmt.Sprint(energy) != tt.energy {
			t.Errorf("%s: got %v and %v, want %s and %s", tt.name, busy, energy, tt.busy, tt.energy)
		}
	}
}
