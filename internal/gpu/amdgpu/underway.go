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
type writes struct {
	mu   sync.Mutex
	open map[*change]gpu.Write
}

func (w *writes) begin(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[*change]gpu.Write)
	}
	w.open[c] = gpu.Write{GPU: c.gpu, Mode: c.to}
}

func (w *writes) end(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}

// lateTimeout is how long a write may take to return, and its file to be read, after the
// deadline. A process that was stopped (SIGSTOP), or whose machine was paused, finds its
// deadline over and the driver's work done.
const lateTimeout = 2 * time.Second

// within is [attr.Within] for a write, which is among those under way until it returns. The
// driver is judged by the write if that returns shortly after the deadline.
func (w *writes) within(ctx context.Context, c *change, write func() error) error {
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
	late := time.NewTimer(lateTimeout)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return ctx.Err()
	}
}

// UnderWay lists the writes that the driver has not returned from, by GPU.
func (n *Node) UnderWay() []gpu.Write {
	n.writes.mu.Lock()
	defer n.writes.mu.Unlock()
	return sorting.From(maps.Values(n.writes.open), func(a, b gpu.Write) int {
		return cmp.Or(a.GPU.Compare(b.GPU), cmp.Compare(a.Mode, b.Mode))
	})
}
