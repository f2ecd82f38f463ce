package service

import (
	"context"
	"log/slog"
	"time"
)

// task is a part of the daemon that runs concurrently with its loop.
type task struct {
	name  string
	run   func(context.Context)
	ready <-chan struct{} // nil: it is ready immediately
}

// Run returns when ctx ends, or when the task has nothing left to do.
func (t task) Run(ctx context.Context) { t.run(ctx) }

// Ready is closed when the tasks after this one may start.
func (t task) Ready() <-chan struct{} { return t.ready }

func (t task) String() string { return t.name }

// startTasks starts each task when the one before it is ready.
func startTasks(ctx context.Context, tasks []task, log *slog.Logger) {
	for _, t := range tasks {
		log.Debug("task started", "task", t)
		go t.Run(ctx)
		if t.Ready() == nil {
			continue
		}
		select {
		case <-t.Ready():
		case <-ctx.Done():
			return
		}
	}
}

// shutdownTimeout limits how long the end takes.
const shutdownTimeout = time.Second

// leave cancels the tasks and waits until they have removed their inotify watches. A process that
// exits with watches takes longer to end, and so to restart, see [watch.Set].
func leave(end context.CancelFunc, watched ...<-chan struct{}) {
	end()
	limit := time.After(shutdownTimeout)
	for _, w := range watched {
		for open := w != nil; open; {
			select {
			case _, open = <-w:
			case <-limit:
				return
			}
		}
	}
}
