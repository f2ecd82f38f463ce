package exitcode

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SignalError is the cause of a context that a signal has ended.
type SignalError struct {
	Signal  syscall.Signal
	Ignored bool // the process had it ignored when it began, as a shell's job in the background has SIGINT
}

func (e *SignalError) Error() string { return "ended by signal: " + e.Signal.String() }

// Status is a shell's exit status for a process that the signal has ended.
func (e *SignalError) Status() int { return 128 + int(e.Signal) }

// NotifyContext returns a context that the first of these signals ends, with a
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

// killTimeout is how long a signal to the process itself may take.
const killTimeout = time.Second

// End ends the process with that status. If it is the status of a signal that was
// received, the process dies of that signal: a shell then ends a loop around it.
func End(status int, by *SignalError) {
	if by != nil && status == by.Status() && !by.Ignored {
		signal.Reset(by.Signal)
		if syscall.Kill(os.Getpid(), by.Signal) == nil {
			time.Sleep(killTimeout) // never to its end
		}
	}
	os.Exit(status)
}
