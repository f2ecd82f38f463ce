package daemon

import (
	"context"
	"time"

	"dcm/internal/engine/runstate"
)

// waker wakes the loop for the next attempt: after a delay, or when a holder has ended.
type waker struct {
	gpus  UseWatcher
	retry <-chan time.Time   // nil if no attempt is due
	freed chan struct{}      // of 1
	stop  context.CancelFunc // ends the wait for holders
}

func newWaker(gpus UseWatcher) waker {
	return waker{gpus: gpus, freed: make(chan struct{}, 1), stop: func() {}}
}

func (w *waker) cancel() {
	w.stop()
	w.stop = func() {}
	w.retry = nil
}

// after wakes the loop after the delay, and returns when that is.
func (w *waker) after(delay time.Duration) time.Time {
	w.retry = time.After(delay)
	return time.Now().Add(delay)
}

// onExit wakes the loop as soon as one of the processes has ended.
func (w *waker) onExit(ctx context.Context, holders []runstate.Holder) {
	if len(holders) == 0 {
		return
	}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		if w.gpus.AwaitExit(ctx, holders) == nil {
			w.wake()
		}
	}()
}

// onUseBelow wakes the loop when the driver's use is lower, but not before the delay is over: a
// count that rises and falls must not restart the clients each time.
func (w *waker) onUseBelow(ctx context.Context, delay time.Duration, use runstate.Use) {
	w.retry = nil
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		if w.gpus.AwaitUseBelow(ctx, use) == nil {
			w.wake()
		}
	}()
}

func (w *waker) wake() {
	select {
	case w.freed <- struct{}{}:
	default: // the loop is already to be woken
	}
}
