package dbusapi

import (
	"context"
	"sync"

	"dcm/internal/frontends/admission"
)

// sharedQueries answers a query that any caller may make. All users share one singleflight, whose
// rate is limited. Root has its own, so that users cannot delay root.
type sharedQueries struct{ users, root *singleflight }

func newSharedQueries(query func(context.Context) (string, error)) sharedQueries {
	return sharedQueries{
		users: newSingleflight(query, admission.NewPace(admission.Rate{Burst: maxUserCalls, Interval: queryInterval})),
		root:  newSingleflight(query, nil),
	}
}

// do returns the answer. The caller waits until ctx ends. The query itself may run until serving ends,
// since other callers share it.
func (q sharedQueries) do(ctx, serving context.Context, uid uint32) (string, error) {
	if uid == 0 {
		return q.root.do(ctx, serving)
	}
	return q.users.do(ctx, serving)
}

// singleflight runs one query at a time. All callers that arrive during a query share the
// next one, which begins after they have arrived: no caller gets an answer that is older than
// its call.
type singleflight struct {
	query func(context.Context) (string, error)
	pace  *admission.Pace // nil for no limit
	turn  chan struct{}   // capacity 1

	mu   sync.Mutex
	next *queryResult // result of the query that has not begun yet; nil if there is none
}

// queryResult is valid when done is closed.
type queryResult struct {
	done chan struct{}
	text string
	err  error
}

func newSingleflight(query func(context.Context) (string, error), p *admission.Pace) *singleflight {
	return &singleflight{query: query, pace: p, turn: make(chan struct{}, 1)}
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

func (s *singleflight) run(ctx context.Context, result *queryResult) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	defer close(result.done)
	leave, err := s.start(ctx)
	s.mu.Lock()
	s.next = nil // later callers need a query that begins after them
	s.mu.Unlock()
	if err != nil {
		result.err = err
		return
	}
	defer leave()
	result.text, result.err = s.query(ctx)
}

// start waits for the end of the previous query, and for the rate limit.
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
