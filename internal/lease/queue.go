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
	came uint64        // [Caller.Came]
}

func (p *place) called() bool {
	select {
	case <-p.turn:
		return true
	default:
		return false
	}
}

// regrouping is what is done about those who stood in line with the keeper before.
type regrouping int

const (
	unneeded regrouping = iota // nobody has come back
	under
	done
)

// queue waits for the caller's turn. Who does not want to wait is let in only where
// nobody waits for more than the answer.
func (k *Keeper) queue(ctx context.Context, c Caller, wait bool) (leave func(), err error) {
	own := &place{make(chan struct{}), wait, c.Came}
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

func (k *Keeper) stand(own *place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.line {
		if p.wait {
			n++
		}
	}
	if n > 0 && !own.wait {
		return &ShortError{Err: fmt.Errorf("%d in line already; ask with --wait to stand in it", n)}
	}
	if k.back == unneeded && own.wait && own.came > 0 && k.Regroup != nil {
		k.back = under
		go k.regroup()
	}
	at := len(k.line)
	if k.back == under && own.wait && own.came > 0 {
		at = slices.IndexFunc(k.line, func(p *place) bool { return !p.called() && (p.came == 0 || p.came > own.came) })
		if at < 0 {
			at = len(k.line)
		}
	}
	k.line = slices.Insert(k.line, at, own)
	k.call()
	return nil
}

// regroup ends the time in which those come back who stood in line before.
func (k *Keeper) regroup() {
	<-k.Regroup()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.back = done
	k.call()
}

// call has the first in line served, but not before those are there who may be before
// him.
func (k *Keeper) call() {
	if len(k.line) == 0 || k.line[0].called() || k.line[0].wait && k.back == under {
		return
	}
	close(k.line[0].turn)
}

func (k *Keeper) leave(own *place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.line, own)
	k.line = slices.Delete(k.line, i, i+1)
	k.call()
}
