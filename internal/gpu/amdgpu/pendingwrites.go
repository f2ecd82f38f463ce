package amdgpu

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// pendingWrites are the writes that have not returned. A write that exceeded the caller's timeout
// stays in the list: it cannot be cancelled and may still take effect.
type pendingWrites struct {
	mu      sync.Mutex
	pending map[*change]gpu.PendingWrite
}

func (w *pendingWrites) begin(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending == nil {
		w.pending = make(map[*change]gpu.PendingWrite)
	}
	w.pending[c] = gpu.PendingWrite{GPU: c.gpu, Mode: c.to}
}

func (w *pendingWrites) end(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, c)
}

// writeGraceTimeout is how long a write and the read of its file may take after the deadline. If
// the process was stopped (SIGSTOP) or its machine paused, the deadline may pass although the
// driver has finished the write.
const writeGraceTimeout = 2 * time.Second

// run is [sysfs.Within] for a write, which is pending until it returns. If the write returns
// shortly after the end of ctx, its result counts.
func (w *pendingWrites) run(ctx context.Context, c *change, write func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	late, cancel := sysfs.Grace(ctx, writeGraceTimeout)
	defer cancel()
	w.begin(c)
	_, err := sysfs.Within(late, func() (struct{}, error) {
		defer w.end(c)
		return struct{}{}, write()
	})
	if late.Err() != nil {
		return ctx.Err()
	}
	return err
}

// list is the PendingWrites of [gpu.Vendor], sorted by GPU.
func (w *pendingWrites) list() []gpu.PendingWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	return sorting.From(maps.Values(w.pending), func(a, b gpu.PendingWrite) int {
		return cmp.Or(a.GPU.Compare(b.GPU), cmp.Compare(a.Mode, b.Mode))
	})
}
