package service

import (
	"slices"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// release releases the clients that were withheld for GPUs that the run has changed successfully.
func (o *oneshot) release() {
	run := o.recorder.Run()
	if err := releaseAfter(o.host, run); err != nil {
		o.log.Error(err.Error())
	}
}

func releaseAfter(h *host.Host, run runstate.Run) error {
	withheld := runstate.WithheldIn(h.Runtime())
	if run.Result.OK() {
		return withheld.Clear()
	}
	return withheld.Keep(func(_ string, a partition.Address) bool {
		i := slices.IndexFunc(run.GPUs, func(g runstate.GPU) bool { return g.Address == a })
		return i < 0 || !run.GPUs[i].Skipped && (run.GPUs[i].Error != "" || !run.GPUs[i].Now.Same(run.GPUs[i].Want))
	})
}
