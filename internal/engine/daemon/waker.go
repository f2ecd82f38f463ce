package daemon

import (
	"context"
	"time"

	"dcm/internal/engine/runstate"
)

// waker wakes the loop for the next attempt: after a delay, or when a holder has ended.
type waker struct {
	gpus  UseWatcher
	dial  func(context.Context) (PID1, error)
	retry <-chan time.Time   // nil if no attempt is due
	freed chan string        // why, of 1
	stop  context.CancelFunc // ends the wait for holders
}

func newWaker(gpus UseWatcher, dial func(context.Context) (PID1, error)) waker {
	return waker{gpus: gpus, dial: dial, freed: make(chan string, 1), stop: func() {}}
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
			w.wake("a holder has released a GPU")
		}
	}()
}

// onUnits wakes the loop when the state of one of the units has changed and this unit has had the time to
// settle.
func (w *waker) onUnits(ctx context.Context, had map[string]string, settle time.Duration) {
	if len(had) == 0 {
		return
	}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		pid1, err := w.dial(ctx)
		if err != nil {
			return // the loop wakes after the delay
		}
		defer pid1.Close()
		if pid1.Availability.Changed(ctx, had) != nil {
			return
		}
		select {
		case <-time.After(settle):
			w.wake("the state of a unit has changed")
		case <-ctx.Done():
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
			w.wake("a holder has released a GPU")
		}
	}()
}

func (w *waker) wake(why string) {
	select {
	case w.freed <- why:
	default: // the loop is already to be woken
	}
}
