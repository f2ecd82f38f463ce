package daemon

import "time"

// A selection that has to be confirmed ends at its deadline: the configuration then selects the former profile. So
// each reader of the configuration agrees, also while no daemon runs. The daemon reads it at the deadline, as after an
// edit.

// deadlineInterval is how often the daemon compares the deadline with the wall clock, which may be set.
const deadlineInterval = 30 * time.Second

// deadline wakes the loop when the selection has to be confirmed, and at intervals before.
type deadline struct {
	at   time.Time        // by the wall clock; zero if there is none
	wake <-chan time.Time // nil if there is none
}

func (d *deadline) set(at time.Time) {
	d.at, d.wake = at, nil
	if !at.IsZero() {
		d.wake = time.After(max(0, min(time.Until(at), deadlineInterval)))
	}
}
