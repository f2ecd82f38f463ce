package dbusapi

import (
	"context"
	"sync"
)

// fairQueue runs calls one at a time. Of each user's calls only one competes with those of other
// users; the user's other calls wait for it. So a call waits for at most one call of every other
// user. Root's calls wait only for root's.
type fairQueue struct {
	mu    sync.Mutex
	users map[uint32]*userQueue
	next  chan struct{} // capacity 1
}

// userQueue runs the calls of one user one at a time.
type userQueue struct {
	free    chan struct{} // capacity 1
	waiting int           // number of waiting and running calls
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
