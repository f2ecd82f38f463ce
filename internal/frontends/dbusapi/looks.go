package dbusapi

import (
	"context"
	"sync"

	"dcm/internal/frontends/admission"
)

// sharedQueries is what everybody may have looked at: the users one look together, at a pace, and
// root its own, so that nobody keeps root waiting.
type sharedQueries struct{ users, root *singleflight }

func newSharedQueries(at func(context.Context) (string, error)) sharedQueries {
	return sharedQueries{users: newSingleflight(at, admission.NewPace(admission.Rate{Burst: maxUserCalls, Interval: queryInterval})), root: newSingleflight(at, nil)}
}

// do has it looked at. It is looked at until serving ends, and waited for until ctx does.
func (l sharedQueries) do(ctx, serving context.Context, uid uint32) (string, error) {
	if uid == 0 {
		return l.root.do(ctx, serving)
	}
	return l.users.do(ctx, serving)
}

// singleflight is one look at a time. Who asks while one is under way has the next, together
// with all who ask by then: it begins after they have asked.
type singleflight struct {
	at   func(context.Context) (string, error)
	pace *admission.Pace // nil: none
	turn chan struct{}   // of 1

	mu   sync.Mutex
	next *queryResult // that has not begun; nil for none
}

// queryResult is what came of a look, once done is closed.
type queryResult struct {
	done chan struct{}
	text string
	err  error
}

func newSingleflight(at func(context.Context) (string, error), p *admission.Pace) *singleflight {
	return &singleflight{at: at, pace: p, turn: make(chan struct{}, 1)}
}

func (s *singleflight) do(ctx, serving context.Context) (string, error) {
	s.mu.Lock()
	next := s.next
	if next == nil {
		next = &queryResult{done: make(chan struct{})}
		s.next = next
		go s.run(serving, next)
	}
	s.mu.Unlock()
	select {
	case <-next.done:
		return next.text, next.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *singleflight) run(ctx context.Context, now *queryResult) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	defer close(now.done)
	leave, err := s.start(ctx)
	s.mu.Lock()
	s.next = nil // who asks from now on would be told of what was before
	s.mu.Unlock()
	if err != nil {
		now.err = err
		return
	}
	defer leave()
	now.text, now.err = s.at(ctx)
}

// start waits for the end of the look before, and for the pace.
func (s *singleflight) start(ctx context.Context) (leave func(), err error) {
	select {
	case s.turn <- struct{}{}:
		leave = func() { <-s.turn }
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.pace == nil {
		return leave, nil
	}
	if err := s.pace.Wait(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}
