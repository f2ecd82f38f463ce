package daemon

import (
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// result is how a pass ended.
type result struct {
	failure      *runstate.Error // the profile is not on the GPUs
	retryReserve *runstate.Error // the profile is on the GPUs, but dcm-reserve.service has to run again
	problem      *runstate.Error // the profile is on the GPUs, but there is another problem
	drift        *runstate.Error // the GPUs are left as another program changed them

	clients []runstate.Client // after a restart
	partial bool              // only some clients were restarted
	started []runstate.Client // the clients that were pending, after their start
	pending pendingStarts     // units to be started once the profile is on the GPUs
	busy    []string          // pending units that PID 1 is starting or stopping
	holders []runstate.Holder // that block a run
	down    map[string]string // the ActiveState of units whose change may end the failure
	hints   []string          // warnings in addition to those of the configuration

	failedStarts []string // services that were started during this run or an earlier one, and failed

	left      []partition.Address // the GPUs that the holders block
	abandoned abandoned           // of the run, or of an earlier one whose settings are the same

	restart      runstate.Restart // the restart that was made, if any
	event        event.ID         // how its run ended, if it failed
	otherProfile bool             // its run was for another selection
	timedOut     bool             // its run succeeded after its timeout, see [succeededLate]

	progress *runstate.Progress // of a change that is made in rounds
	round    bool               // the restart was a round, and later ones follow
	pause    time.Duration      // the next round does not begin before

	fingerprint string              // of the GPUs at the end of the pass
	gpus        []partition.Address // see [Observation.Present]
	byDevice    bool                // of a pass caused by a device event
	unchanged   bool                // with byDevice: the pass found no change; all other fields are empty
	startsOnly  bool                // of a pass that has compared nothing
	delayed     bool                // the failure is a repair that must be delayed
	throttle    time.Duration       // no run is started for this time
}

// incomplete reports whether the profile is not on all GPUs yet, and later rounds put it there.
func (r result) incomplete() bool { return r.round || r.pause > 0 }

// transient returns the result for a failed connection to PID 1. The next attempt may succeed.
func transient(err error) result {
	return result{failure: &runstate.Error{Text: err.Error(), Transient: true}}
}

// again returns the result if the profile is on the GPUs but dcm-reserve.service has to run again.
func again(e runstate.Error) result {
	e.Transient = true
	return result{retryReserve: &e}
}
