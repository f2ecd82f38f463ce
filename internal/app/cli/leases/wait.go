package leases

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"dcm/internal/app/cli/console"
	"dcm/internal/frontends/dbusapi"
)

// addWait adds --wait and --wait=TIME.
func addWait(f *pflag.FlagSet, w *dbusapi.Request) {
	console.WaitFlag(f, &w.Wait, &w.WaitLimit, "wait in the queue until enough partitions are free; with --wait=TIME at most for that time, such as 30m")
}

// hintWait adds a hint to the error of a command that is missing because it is the time of --wait.
func hintWait(w dbusapi.Request, command string, err error) error {
	if _, wrong := console.ParseDuration(command); wrong != nil || !w.Wait || w.WaitLimit > 0 {
		return err
	}
	return fmt.Errorf("%w\nhint: write --wait=%s", err, command)
}

// answerDelay is how long after the limit of a wait the daemon may still answer, which names the holders.
const answerDelay = 2 * time.Second

// waitLimit is the limit of a wait, which calls of several daemons may share.
type waitLimit struct {
	ctx   context.Context // ends answerDelay after the limit
	stop  context.CancelFunc
	total time.Duration // 0 for no limit
	end   time.Time
}

func newWaitLimit(ctx context.Context, total time.Duration) waitLimit {
	if total <= 0 {
		return waitLimit{ctx: ctx, stop: func() {}}
	}
	w := waitLimit{total: total, end: time.Now().Add(total)}
	w.ctx, w.stop = context.WithDeadline(ctx, w.end.Add(answerDelay))
	return w
}

// left returns the remaining time, 0 for no limit.
func (w waitLimit) left() time.Duration {
	if w.total <= 0 {
		return 0
	}
	return max(time.Until(w.end), time.Millisecond)
}
