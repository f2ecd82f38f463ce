package daemon

import (
	"context"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// observer reads the GPUs for one pass. Each call waits for the driver, up to timeout.
type observer struct {
	gpus    GPUReader
	timeout time.Duration
	seen    string // the fingerprint that the pass read before its run

	history gpuHistory          // before the pass
	present []partition.Address // see [Observation.Present]
}

func (o *observer) observe(ctx context.Context, p partition.Profile) (Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	now, err := o.gpus.Observe(ctx, p)
	o.seen = now.Fingerprint
	if now.Present != nil {
		o.present = now.Present
	}
	return now, err
}

// cause returns why the GPUs differ from those of the pass before.
func (o *observer) cause() string { return o.history.cause(o.present) }

// reached reports whether the profile is on the GPUs. It is for a run that could not write its
// report, for example on a full file system.
func (o *observer) reached(ctx context.Context, p partition.Profile) bool {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	now, err := o.gpus.Observe(ctx, p)
	return err == nil && now.Diff == 0
}

func (o *observer) inventory(ctx context.Context) Observation {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return o.gpus.Inventory(ctx)
}

// after returns the fingerprint that the next pass compares with, if a device event causes it.
// Without a restart it is the fingerprint of the planned-for state, so that a later change is
// detected. After a failed run, the GPUs are read again, because the state that the run left is no
// drift. The same applies between two rounds. After a run that put the profile on all GPUs it is "": the
// next pass is a full one.
//
// The failure of a GPU that disappeared during the run becomes transient if that GPU is back: its
// event came during the run, and there is no later one.
func (o *observer) after(ctx context.Context, r result) (fingerprint string, failure *runstate.Error) {
	switch {
	case r.clients == nil:
		return o.seen, r.failure
	case r.failure == nil && !r.round:
		return "", nil
	}
	now := o.inventory(ctx)
	if r.failure == nil || r.failure.Gone == "" || !slices.Contains(now.Present, r.failure.Gone) {
		return now.Fingerprint, r.failure
	}
	returned := *r.failure
	returned.Transient, returned.Hint = true, "the GPU is back, and dcm retries; the kernel log has the cause"
	return now.Fingerprint, &returned
}
