package lease

import (
	"context"
	"fmt"
	"slices"
)

// place is one who stands in line.
type place struct {
	turn chan struct{} // closed when it is his
	wait bool          // for as long as it takes
}

// queue waits for the caller's turn. Who does not want to wait is let in only where
// nobody waits for more than the answer.
func (k *Keeper) queue(ctx context.Context, wait bool) (leave func(), err error) {
	own := place{make(chan struct{}), wait}
	if err := k.stand(own); err != nil {
		return nil, err
	}
	leave = func() { k.leave(own) }
	select {
	case <-own.turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (k *Keeper) stand(own place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.line {
		if p.wait {
			n++
		}
	}
	if n > 0 && !own.wait {
		return fmt.Errorf("%d in line already; ask with --wait to stand in it", n)
	}
	k.line = append(k.line, own)
	if len(k.line) == 1 {
		close(own.turn)
	}
	return nil
}

func (k *Keeper) leave(own place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.line, own)
	k.line = slices.Delete(k.line, i, i+1)
	if i == 0 && len(k.line) > 0 {
		close(k.line[0].turn)
	}
}
