package lease

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// answer is the result of a request.
type answer struct {
	lease Lease
	err   error
}

// client requests leases as one process, in a bubble of [synctest].
type client struct {
	*testing.T
	host   *host
	keeper *Allocator
}

func newClient(t *testing.T) *client {
	h := newHost()
	h.terms, h.inside, h.alone = make(map[string]Term), make(map[int]string), make(map[int]string)
	h.still = func() error { return nil }
	return &client{t, h, newAllocator(h)}
}

// request requests partitions, and returns when the request waits or has ended.
func (c *client) request(ctx context.Context, who Caller, r Request) <-chan answer {
	c.host.mu.Lock()
	c.host.starts[who.PID] = uint64(who.PID)
	c.host.mu.Unlock()
	out := make(chan answer, 1)
	go func() {
		l, err := c.keeper.Acquire(ctx, who, r)
		out <- answer{l, err}
	}()
	synctest.Wait()
	return out
}

// waits is request with Wait.
func (c *client) waits(who Caller, n int) <-chan answer {
	r := ask(n)
	r.Wait = true
	return c.request(c.Context(), who, r)
}

// result returns the answer of a request, which must have ended.
func (c *client) result(a <-chan answer) answer {
	c.Helper()
	synctest.Wait()
	select {
	case got := <-a:
		return got
	default:
		c.Fatalf("the request still waits; queue: %+v", c.keeper.Queue())
		return answer{}
	}
}

func (c *client) given(a <-chan answer) Lease {
	c.Helper()
	got := c.result(a)
	if got.err != nil {
		c.Fatalf("no lease was granted: %v", got.err)
	}
	return got.lease
}

// queue returns the processes that wait.
func (c *client) queue() []int {
	out := []int{}
	for _, q := range c.keeper.Queue() {
		out = append(out, q.PID)
	}
	return out
}

func (c *client) queued(want ...int) {
	c.Helper()
	if got := c.queue(); !slices.Equal(got, want) {
		c.Errorf("queue: got %d, want %d", got, want)
	}
}

func process(uid uint32, pid int) Caller { return Caller{UID: uid, PID: pid} }
