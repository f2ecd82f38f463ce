package status

import "dcm/internal/engine/runstate"

// State is the health of a host in one word.
type State string

// The states. A host that has several things wrong has the worst of them.
const (
	Healthy   State = "healthy"              // the profile in force is on the GPUs, and nothing is wrong
	Idle      State = "idle"                 // no profile is selected: the GPUs are left alone
	Changing  State = "changing"             // a run is under way
	Pending   State = "memory-pending"       // a memory mode that nobody wants any more comes with the next load of the driver
	Disabled  State = "disabled"             // a unit of dcm's is not started at boot
	Down      State = "daemon-down"          // dcm.service does not run: nobody watches
	Shared    State = "not-exclusive"        // what is reserved exclusively is confined, and open to others
	Unordered State = "drop-ins-missing"     // systemd has not loaded dcm's drop-ins of clients
	Nodeless  State = "partition-missing"    // a partition has no device node, or a regular file has the name of /dev/kfd
	Kept      State = "configuration-kept"   // that on disk is broken; the last good one stays in force
	Unseen    State = "unknown"              // the GPUs may not be looked at from here
	Rebooting State = "rebooting"            // the host is being rebooted for the profile
	Drifted   State = "drifted"              // somebody has changed the GPUs, and they are left so
	Waiting   State = "waiting"              // not now: it is tried again
	Held      State = "unseen-holder"        // somebody who cannot be seen holds the GPUs
	NotOn     State = "not-applied"          // the GPUs are not as the profile in force says
	Failed    State = "failed"               // it could not be put on the GPUs, and trying again does not help
	Broken    State = "configuration-broken" // it cannot be used, and there is no good one in force
	Clients   State = "clients-down"         // clients are not as they were, or have failed
	Unmet     State = "reservation-unmet"    // a reservation has no partitions
	Open      State = "unconfined"           // a unit that holds partitions, or is to, can open others
	Missing   State = "gpu-missing"          // there are fewer GPUs than there should be
)

// The exit statuses of monitoring plugins, which `dcm status` uses.
const (
	CodeOK       = 0
	CodeWarning  = 1 // it works; somebody should look
	CodeCritical = 2 // the GPUs, or those who use them, are not as they should be
	CodeUnknown  = 3
)

// States returns all states, the best first.
func States() []State {
	return []State{Healthy, Idle, Changing, Pending, Disabled, Down, Shared, Unordered, Nodeless, Kept, Unseen, Rebooting, Drifted, Waiting, Held, NotOn, Failed, Broken, Clients, Unmet, Open, Missing}
}

// Code returns the exit status of a monitoring plugin.
func (s State) Code() int {
	switch s {
	case Healthy, Idle:
		return CodeOK
	case Changing, Pending, Disabled, Down, Shared, Unordered, Nodeless, Kept:
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
