package status

import "dcm/internal/engine/runstate"

// State is the health of a host in one word.
type State string

// The states, the best first. A host with several problems has the worst of their states.
const (
	Healthy   State = "healthy"              // the GPUs match the effective profile, and there is no problem
	Idle      State = "idle"                 // no profile is selected
	Changing  State = "changing"             // a run is in progress
	Starting  State = "starting"             // dcm.service is starting, and has not put the profile on the GPUs yet
	Pending   State = "memory-pending"       // an outdated memory mode is pending until the next load of the driver
	Disabled  State = "disabled"             // a unit of dcm is not started at boot
	Down      State = "daemon-down"          // dcm.service does not run
	Faulty    State = "unit-failed"          // a unit of dcm has failed
	Shared    State = "not-exclusive"        // other processes can open exclusive partitions
	Unordered State = "drop-ins-missing"     // systemd has not loaded dcm's drop-ins for clients
	Nodeless  State = "partition-missing"    // a partition has no device node, or a regular file has the name of /dev/kfd
	Full      State = "memory-held"          // memory of a GPU is in use, and no process holds it
	NoGPU     State = "client-without-gpu"   // a client that had a GPU open before its restart has none open
	Kept      State = "configuration-kept"   // the configuration on disk has errors; the last good one is effective
	Unseen    State = "unknown"              // this process cannot read the GPUs
	Rebooting State = "rebooting"            // the host reboots for the profile
	Drifted   State = "drifted"              // another program changed the GPUs, and dcm does not repair that
	Partial   State = "partial"              // a change failed on some GPUs; the others match the profile
	Waiting   State = "waiting"              // the last run failed; dcm retries
	Held      State = "unseen-holder"        // an unseen process holds the GPUs
	NotOn     State = "not-applied"          // the GPUs do not match the effective profile
	Failed    State = "failed"               // the last run failed, and a retry would not help
	Broken    State = "configuration-broken" // the configuration has errors, and there is no last good one
	Clients   State = "clients-down"         // clients did not return after a restart, or have failed
	Unmet     State = "reservation-unmet"    // a reservation has no partitions
	Open      State = "unconfined"           // a unit with partitions can open others
	Missing   State = "gpu-missing"          // fewer GPUs than expected
)

// The exit statuses of monitoring plugins, which `dcm status` uses.
const (
	CodeOK       = 0
	CodeWarning  = 1 // the GPUs can be used, but a problem needs attention
	CodeCritical = 2 // the GPUs or their users have a problem
	CodeUnknown  = 3
)

// States returns all states, the best first.
func States() []State {
	return []State{Healthy, Idle, Changing, Starting, Pending, Disabled, Down, Faulty, Shared, Unordered, Nodeless, Full, NoGPU, Kept, Unseen, Rebooting, Drifted, Partial, Waiting, Held, NotOn, Failed, Broken, Clients, Unmet, Open, Missing}
}

// Code returns the exit status of a monitoring plugin.
func (s State) Code() int {
	switch s {
	case Healthy, Idle:
		return CodeOK
	case Changing, Starting, Pending, Disabled, Down, Faulty, Shared, Unordered, Nodeless, Full, NoGPU, Kept:
		return CodeWarning
	case Unseen:
		return CodeUnknown
	}
	return CodeCritical
}

// rank orders states, the worst last.
func (s State) rank() int {
	for i, known := range States() {
		if s == known {
			return i
		}
	}
	return len(States())
}

// offStates maps the daemon's phase to the state of a host whose GPUs do not match the
// profile.
func offStates() map[runstate.Phase]State {
	return map[runstate.Phase]State{
		runstate.Applying: Changing, runstate.Waiting: Waiting, runstate.Rebooting: Rebooting, runstate.Drifted: Drifted, runstate.Stuck: Failed,
	}
}
