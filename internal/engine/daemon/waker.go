package daemon

import (
	"context"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// waker wakes the loop for the next attempt: after a delay, or when a holder has ended.
type waker struct {
	gpus    UseWatcher
	dial    func(context.Context) (PID1, error)
	retry   <-chan time.Time   // nil if no attempt is due
	freed   chan string        // why, of 1
	settled chan string        // a unit for which pending starts wait; why, of 1
	stop    context.CancelFunc // ends the wait for holders
}

func newWaker(gpus UseWatcher, dial func(context.Context) (PID1, error)) waker {
	return waker{gpus: gpus, dial: dial, freed: make(chan string, 1), settled: make(chan string, 1), stop: func() {}}
}

func (w *waker) cancel() {
	w.stop()
	w.stop = func() {}
	w.retry = nil
}

// until returns a context that ends with the present wait.
func (w *waker) until(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	before := w.stop
	w.stop = func() { before(); cancel() }
	return ctx
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
	ctx = w.until(ctx)
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
	ctx = w.until(ctx)
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

// onSettled wakes the loop as soon as PID 1 has started or stopped one of the units.
func (w *waker) onSettled(ctx context.Context, units []string) {
	ctx = w.until(ctx)
	for _, unit := range units {
		go func() {
			pid1, err := w.dial(ctx)
			if err != nil {
				return // the next pass starts it
			}
			defer pid1.Close()
			now, err := pid1.States.Settle(ctx, []string{unit}, systemd.Unit.Settled)
			if err == nil && !slices.ContainsFunc(now, func(u systemd.Unit) bool { return !u.Settled() }) {
				select {
				case w.settled <- "systemd has started or stopped " + unit:
				default: // the loop is already to be woken
				}
			}
		}()
	}
}

// onUseBelow wakes the loop when the driver's use is lower, but not before the delay is over: a
// count that rises and falls must not restart the clients each time.
func (w *waker) onUseBelow(ctx context.Context, delay time.Duration, use runstate.Use) {
	w.retry = nil
	ctx = w.until(ctx)
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
