package exitcode

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SignalError is the cause of a context that a signal has cancelled.
type SignalError struct {
	Signal  syscall.Signal
	Ignored bool // the signal was ignored at the start, as SIGINT is in a background job of a shell
}

func (e *SignalError) Error() string { return "ended by signal: " + e.Signal.String() }

// Status returns the exit status that a shell reports for a process killed by the signal.
func (e *SignalError) Status() int { return 128 + int(e.Signal) }

// NotifyContext returns a context that the first of the signals cancels, with a
// [SignalError] as its cause.
func NotifyContext(parent context.Context, signals ...syscall.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	ignored := make(map[os.Signal]bool)
	for _, s := range signals {
		ignored[s] = signal.Ignored(s)
		signal.Notify(received, s)
	}
	go func() {
		select {
		case s := <-received:
			cancel(&SignalError{s.(syscall.Signal), ignored[s]})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
	}
}

// killTimeout is how long a signal of the process to itself may take.
const killTimeout = time.Second

// End ends the process with that status. If it is the status of a received signal, the
// process kills itself with that signal, so that a shell ends a loop around it.
func End(status int, by *SignalError) {
	if by != nil && status == by.Status() && !by.Ignored {
		signal.Reset(by.Signal)
		if syscall.Kill(os.Getpid(), by.Signal) == nil {
			time.Sleep(killTimeout) // the signal ends it earlier
		}
	}
	os.Exit(status)
}
