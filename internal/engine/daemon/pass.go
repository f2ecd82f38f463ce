package daemon

import "dcm/internal/engine/runstate"

// pass is one comparison of the GPUs with the settings, and at most one restart. See decide.go
// for its sequence.
type pass struct {
	*Daemon
	log      *passLog
	settings Settings
	usable   bool // there are settings
	asked    runstate.Asked
	forced   bool // an administrator has requested the pass
	failures failures
	unseen   *runstate.Use // see [unseenHolder]

	startsOnly *runstate.Error // the pass starts pending units and compares nothing, because of this failure; nil: it compares

	byDevice bool   // caused by a device event
	before   string // the fingerprint of the GPUs before the event, if byDevice
	tooSoon  bool   // a repair must be delayed, if byDevice

	failedStarts []string // of earlier runs
	abandoned    abandoned

	users   runstate.InstanceUsers // see [Observation.Users]
	begin   func(intent) error     // called before a restart
	conn    *connection
	dropins *dropinLoader
	gpus    *observer
	starts  *starter
}
