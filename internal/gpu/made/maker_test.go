package made

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/testdeadline"
)

func newMaker(t *testing.T) (*bench, Maker) {
	b := &bench{offered: h100(), inUse: make(map[int]bool), kill: -1}
	return b, Maker{
		Claims: Claims{filepath.Join(t.TempDir(), "made")}, GPUs: b, Lock: b.lock, Publish: b.publish, Changed: b.changed,
		Retry: func(error) bool { return false }, Log: slog.New(slog.DiscardHandler),
	}
}

func oneSlice(start int) Name {
	return Name{Lease: fmt.Sprintf("dcm-lease-0-%08x.scope", start), GPU: gpu, Profile: "1g.10gb", Start: start}
}

// An instance that was there before is not destroyed by the stop that follows the failed start.
func TestMake_Occupied(t *testing.T) {
	b, m := newMaker(t)
	foreign := partition.Instance{Profile: "1g.10gb", Start: 3}
	b.instances = append(b.instances, foreign)
	if err := m.Make(t.Context(), oneSlice(3)); !errors.Is(err, ErrOccupied) {
		t.Errorf("start: got %v, want %v", err, ErrOccupied)
	}
	if err := m.Unmake(t.Context(), oneSlice(3)); err != nil || !b.has(foreign) {
		t.Errorf("stop: %v, left %v, want %v", err, b.instances, foreign)
	}
}

// An instance of another claim is not made a second time.
func TestMake_Claimed(t *testing.T) {
	b, m := newMaker(t)
	if err := m.Make(t.Context(), oneSlice(3)); err != nil {
		t.Fatal(err)
	}
	other := oneSlice(3)
	other.Lease = "dcm-lease-0-ffffffff.scope"
	if err := m.Make(t.Context(), other); err == nil {
		t.Error("second claim: want an error")
	}
	if err := m.Unmake(t.Context(), other); err != nil || len(b.instances) != 1 {
		t.Errorf("stop of the second: %v, left %v, want that of the first", err, b.instances)
	}
}

// Ends that wait for the GPU are done by the one that has it, in one call.
func TestUnmake_Together(t *testing.T) {
	for _, tt := range []struct {
		name  string
		inUse bool // the first instance

		left int
	}{{"all", false, 0}, {"one in use", true, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			b, m := newMaker(t)
			for start := range 5 {
				if err := m.Make(t.Context(), oneSlice(start)); err != nil {
					t.Fatal(err)
				}
			}
			b.inUse[0] = tt.inUse
			var gpu sync.Mutex
			ending := make(chan struct{}) // the end is recorded
			m.Lock = func(partition.Address) (func(), error) { ending <- struct{}{}; gpu.Lock(); return gpu.Unlock, nil }
			gpu.Lock()
			var all sync.WaitGroup
			for start := range 5 {
				all.Go(func() {
					if err := m.Unmake(t.Context(), oneSlice(start)); errors.Is(err, errInUse) != (tt.inUse && start == 0) {
						t.Errorf("slot %d: %v", start, err)
					}
				})
			}
			for range 5 {
				select {
				case <-ending:
				case <-testdeadline.After(10 * time.Second):
					t.Fatal("a unit does not record its end")
				}
			}
			gpu.Unlock()
			all.Wait()
			names, err := m.Claims.List()
			if err != nil || len(names) != tt.left || len(b.instances) != tt.left || len(b.published) != tt.left {
				t.Errorf("left: %v, %v, %v listed, %v", names, b.instances, b.published, err)
			}
			if !tt.inUse && b.calls != 1 {
				t.Errorf("%d calls destroy them, want 1", b.calls)
			}
		})
	}
}

// lateGPUs ends the time of the stop during the second attempt, as a library that answers too late.
type lateGPUs struct {
	GPUs
	end      func()
	attempts int
}

func (g *lateGPUs) Destroy(ctx context.Context, gpu partition.Address, list []partition.Instance) error {
	if g.attempts++; g.attempts == 2 {
		g.end()
		return ctx.Err()
	}
	return g.GPUs.Destroy(ctx, gpu, list)
}

// The reason of an instance that stays is recorded until a later stop destroys it.
func TestUnmake_NotDestroyed(t *testing.T) {
	b, m := newMaker(t)
	if err := m.Make(t.Context(), oneSlice(3)); err != nil {
		t.Fatal(err)
	}
	b.inUse[3] = true
	ctx, cancel := context.WithCancel(t.Context())
	m.GPUs = &lateGPUs{GPUs: b, end: cancel}
	m.Retry = func(error) bool { return true }
	m.Users = func(ctx context.Context, _ Name) string { return fmt.Sprint("sleep has it open, ", ctx.Err()) }
	if err := m.Unmake(ctx, oneSlice(3)); !errors.Is(err, errInUse) || errors.Is(err, context.Canceled) {
		t.Errorf("stop while in use: got %v, want %v", err, errInUse)
	}
	want := fmt.Sprintf("1g.10gb at slot 3 of %s is not destroyed: %s; sleep has it open, <nil>", gpu, errInUse)
	if got := m.Claims.Failures(); len(got) != 1 || got[0] != want {
		t.Errorf("failures: got %q, want %q", got, want)
	}
	b.inUse[3], m.GPUs = false, b
	if err := m.Unmake(t.Context(), oneSlice(3)); err != nil || len(m.Claims.Failures()) > 0 {
		t.Errorf("stop later: %v, failures %q", err, m.Claims.Failures())
	}
}
