package dbusapi

import (
	"context"
	"sync"
)

// fairQueue runs calls one at a time. The calls of one user wait for each other first, and
// then one call per user waits for its turn. A call therefore waits for at most one call of
// every other user. Root's calls wait only for root's.
type fairQueue struct {
	mu    sync.Mutex
	users map[uint32]*userQueue
	next  chan struct{} // capacity 1
}

// userQueue orders the calls of one user. waiting counts the running call too.
type userQueue struct {
	free    chan struct{} // capacity 1
	waiting int
}

func newFairQueue() *fairQueue {
	return &fairQueue{users: make(map[uint32]*userQueue), next: make(chan struct{}, 1)}
}

// take waits for the user's turn. The caller calls leave at the end of its work.
func (q *fairQueue) take(ctx context.Context, uid uint32) (leave func(), err error) {
	own := q.queue(uid)
	drop := func() { q.drop(uid, own) }
	select {
	case own.free <- struct{}{}:
	case <-ctx.Done():
		drop()
		return nil, ctx.Err()
	}
	if uid == 0 {
		return func() { <-own.free; drop() }, nil
	}
	select {
	case q.next <- struct{}{}:
	case <-ctx.Done():
		<-own.free
		drop()
		return nil, ctx.Err()
	}
	return func() { <-q.next; <-own.free; drop() }, nil
}

func (q *fairQueue) queue(uid uint32) *userQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.users[uid]
	if own == nil {
		own = &userQueue{free: make(chan struct{}, 1)}
		q.users[uid] = own
	}
	own.waiting++
	return own
}

func (q *fairQueue) drop(uid uint32, own *userQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if own.waiting--; own.waiting == 0 {
		delete(q.users, uid)
	}
}
