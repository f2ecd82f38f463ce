package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/plan"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
)

// holderWait is --wait of a command: it waits for the processes and leases that block a change.
type holderWait struct {
	wait  bool
	limit time.Duration // 0 for no limit
}

func (o *holderWait) addFlag(f *pflag.FlagSet) {
	console.WaitFlag(f, &o.wait, &o.limit, "wait for the processes and leases that block the change; with --wait=TIME at most for that time, such as 30m")
}

// before waits, and then calls change. named is the profile of the command, none for the selected one. Nothing is changed
// before the end of the wait. If root waits, no new leases of these GPUs are given until change has returned.
func (o holderWait) before(ctx context.Context, h *host.Host, con *console.Console, named []string, change func() error) error {
	if !o.wait {
		return change()
	}
	w := idleWait{host: h, con: con}
	defer func() { w.end() }()
	find := func(ctx context.Context) ([]runstate.Holder, error) { return w.changeBlockers(ctx, named) }
	if err := o.await(ctx, find, awaitExit, con.Println); err != nil {
		return err
	}
	return change()
}

// await returns when find finds no holder. exit waits for the end of a holder.
func (o holderWait) await(ctx context.Context, find func(context.Context) ([]runstate.Holder, error), exit func(context.Context, []runstate.Holder), report func(string)) error {
	waiting := ctx
	if o.limit > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeout(ctx, o.limit)
		defer stop()
	}
	for reported := ""; ; {
		holders, err := find(ctx)
		switch {
		case ctx.Err() != nil:
			return errors.New("nothing was changed: interrupted while waiting for holders")
		case err != nil:
			return unchanged(err)
		case len(holders) == 0:
			return nil
		}
		text := runstate.InUse(holders).Text
		if waiting.Err() != nil {
			return exitcode.With(exitcode.Transient, fmt.Errorf("nothing was changed: the time to wait is over: %s", text))
		}
		if text != reported {
			report("Waiting: " + text + ".")
		}
		reported = text
		exit(waiting, holders)
	}
}

// changeBlockers returns the processes and leases that block the change to a profile, by the rules of the daemon.
func (w *idleWait) changeBlockers(ctx context.Context, named []string) ([]runstate.Holder, error) {
	cfg, d, _, err := plan.Compare(ctx, w.host, client.FromDaemon(w.host), named...)
	if err != nil || len(d.Steps) == 0 {
		return nil, err
	}
	if err := w.limit(changedGPUs(d)); err != nil {
		return nil, err
	}
	a := client.Account(ctx, w.host)
	if err := client.WhyHidden(a, "holders"); err != nil {
		return nil, err
	}
	all := client.Holders(a)
	if d, err = plan.WithInstances(w.host, cfg, d, all); err != nil {
		return nil, err
	}
	f, err := plan.Foresee(ctx, w.host, cfg, d, d.InWay(all))
	return f.Holders, err
}

// holderPollInterval is the longest time until the holders are read again: a process may close a GPU without exiting.
const holderPollInterval = 2 * time.Second

// pollTimeout is how long a call of poll(2) lasts, which no context ends.
const pollTimeout = 200 * time.Millisecond

// awaitExit returns when one of the processes has exited, after holderPollInterval, or when ctx ends.
func awaitExit(ctx context.Context, holders []runstate.Holder) {
	var fds []unix.PollFd
	for _, h := range holders {
		fd, err := unix.PidfdOpen(h.PID, 0)
		if errors.Is(err, unix.ESRCH) {
			return
		}
		if err == nil {
			defer unix.Close(fd)
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	for end := time.Now().Add(holderPollInterval); time.Now().Before(end) && ctx.Err() == nil; {
		if n, _ := unix.Poll(fds, int(pollTimeout.Milliseconds())); n > 0 && slices.ContainsFunc(fds, func(fd unix.PollFd) bool { return fd.Revents != 0 }) {
			return
		}
	}
}
