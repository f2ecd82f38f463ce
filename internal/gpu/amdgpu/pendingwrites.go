package amdgpu

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/sorting"
)

// writes are those that have not returned. One that its caller has given up stays
// among them: it cannot be taken back, and may be carried out at any time.
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

// lateTimeout is how long a write may take to return, and its file to be read, after the
// deadline. A process that was stopped (SIGSTOP), or whose machine was paused, finds its
// deadline over and the driver's work done.
const writeGraceTimeout = 2 * time.Second

// within is [attr.Within] for a write, which is among those under way until it returns. The
// driver is judged by the write if that returns shortly after the deadline.
func (w *pendingWrites) run(ctx context.Context, c *change, write func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.begin(c)
	done := make(chan error, 1)
	go func() {
		err := write()
		w.end(c)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(writeGraceTimeout)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return ctx.Err()
	}
}

// UnderWay lists the writes that the driver has not returned from, by GPU.
func (n *Node) PendingWrites() []gpu.PendingWrite {
	n.writes.mu.Lock()
	defer n.writes.mu.Unlock()
	return sorting.From(maps.Values(n.writes.pending), func(a, b gpu.PendingWrite) int {
		return cmp.Or(a.GPU.Compare(b.GPU), cmp.Compare(a.Mode, b.Mode))
	})
}
