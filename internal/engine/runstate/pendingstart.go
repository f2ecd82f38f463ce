package runstate

import "time"

// PendingStart is a unit that the daemon has to start. It was up when a run stopped it, or ended without
// the driver that a run had unloaded.
type PendingStart struct {
	Unit       string        `json:"unit"`
	Invocation string        `json:"invocation,omitempty"` // the last one that is known, "" if none is
	Since      time.Time     `json:"since,omitzero"`       // the stop, zero if it is not known
	Reason     PendingReason `json:"reason"`
	// WaitsFor is the unit that PID 1 starts or stops before the daemon decides: this one, or one that it requires.
	WaitsFor string `json:"waits_for,omitempty"`
}

// PendingReason is why a unit has a pending start.
type PendingReason string

// The reasons of pending starts. PID 1 knows only the last start and stop of a unit, so the daemon records the last two
// when it sees them.
const (
	StoppedByRun     PendingReason = "stopped"           // a run stopped it, and starts it again unless the run fails
	LeftDown         PendingReason = "left-down"         // it was down after a run that failed, and no administrator had stopped it
	DependencyFailed PendingReason = "dependency-failed" // a unit that it requires failed at its first start, and systemd started only that one again
)

// PendingStarts are in the order of their units, each once.
type PendingStarts []PendingStart

// Units returns the units.
func (p PendingStarts) Units() []string {
	out := make([]string, len(p))
	for i, one := range p {
		out[i] = one.Unit
	}
	return out
}
