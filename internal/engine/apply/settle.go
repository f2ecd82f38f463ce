package apply

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/gpu/partition"
)

// settle observes the GPUs once more after the settle delay, and returns an error if the
// driver has reverted a step that it reported as successful. A stop request shortens the delay.
func (r *run) settle(ctx context.Context, want partition.Layout) error {
	if r.opt.SettleDelay == 0 {
		return nil
	}
	select {
	case <-time.After(r.opt.SettleDelay):
	case <-ctx.Done():
	}
	steps, err := r.replan(ctx, want)
	if err == nil && len(steps) > 0 {
		err = fmt.Errorf("the driver reported success, and has reverted it within %v: still to do is %q", r.opt.SettleDelay, steps[0])
	}
	return err
}
