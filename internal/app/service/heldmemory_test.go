package service

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func TestMemoryWatch(t *testing.T) {
	const gib, total = uint64(1) << 30, uint64(192) << 30
	var written [][]runstate.MemoryHeld
	var next gpu.MemoryUse
	var fails error
	changes := 0
	w := &memoryWatch{
		read:    func(context.Context) ([]gpu.MemoryUse, error) { return []gpu.MemoryUse{next}, fails },
		write:   func(list []runstate.MemoryHeld) error { written = append(written, list); return nil },
		changed: func() { changes++ }, log: slog.New(slog.DiscardHandler), list: make(map[partition.Address]runstate.MemoryHeld),
	}
	const busy, held = busyMemoryInterval, heldMemoryDelay
	start := time.Now()
	for i, step := range []struct {
		at            time.Duration
		used, visible uint64
		err           error
		again         time.Duration
		writes        int
		bytes         uint64
	}{
		{0, gib, 0, nil, 0, 0, 0},
		{time.Second, 100 * gib, 99 * gib, nil, busy, 0, 0}, // a process
		{2 * time.Second, 100 * gib, 0, nil, held, 0, 0},    // its memory is not free yet
		{5 * time.Second, 0, 0, nil, 0, 0, 0},
		{6 * time.Second, 50 * gib, 0, nil, held, 0, 0},
		{10 * time.Second, 50 * gib, 0, nil, held, 0, 0},
		{16 * time.Second, 50 * gib, 0, nil, held, 1, 50 * gib},
		{17 * time.Second, 50 * gib, 0, nil, held, 1, 50 * gib},               // no change
		{18 * time.Second, 0, 0, errors.New("unreadable"), busy, 1, 50 * gib}, // nothing is known
		{19 * time.Second, 70 * gib, 20 * gib, nil, held, 1, 50 * gib},        // a process in addition
		{20 * time.Second, gib, 0, nil, 0, 2, 0},
	} {
		next, fails = gpu.MemoryUse{GPU: "0000:05:00.0", Total: total, Used: step.used, Visible: step.visible, Busy: step.visible > 0}, step.err
		again := w.look(t.Context(), start.Add(step.at))
		bytes := runstate.HeldOn(w.listed, "0000:05:00.0")
		if again != step.again || len(written) != step.writes || changes != step.writes || bytes != step.bytes {
			t.Fatalf("step %d: again after %s, %d writes, %d changes, %d bytes held", i, again, len(written), changes, bytes)
		}
	}
}
