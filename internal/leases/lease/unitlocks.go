package lease

import (
	"context"
	"sync"
)

// unitLocks are one lock for each unit.
type unitLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed at the release
}

// lock waits for the lock of a unit until ctx ends.
func (l *unitLocks) lock(ctx context.Context, unit string) (release func(), err error) {
	for {
		l.mu.Lock()
		other, held := l.held[unit]
		if !held {
			break
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[string]chan struct{})
	}
	own := make(chan struct{})
	l.held[unit] = own
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, unit)
		close(own)
	}, nil
}
