package daemon

import (
	"slices"
	"time"

	"dcm/internal/engine/runstate"
)

// announced are the notes that the daemon has read.
type announced struct {
	files     Notes
	read      []runstate.Note // whose files exist still
	idleSince time.Time       // when the last pass ended
}

// update adds the notes that commands have written since to the list.
func (a *announced) update(list []runstate.Announcement) []runstate.Announcement {
	var fresh []runstate.Note
	for _, n := range a.files.Read() {
		if !slices.ContainsFunc(a.read, n.Same) {
			fresh = append(fresh, n)
		}
	}
	a.read = append(a.read, fresh...)
	return runstate.Announce(list, fresh)
}

// saved removes the files of notes that a saved state has.
func (a *announced) saved() {
	for _, n := range a.read {
		a.files.Forget(n)
	}
	a.read = nil
}

// age removes the notes that are too old. It is called when the daemon is idle.
func (a *announced) age(list []runstate.Announcement) []runstate.Announcement {
	now := time.Now()
	out := runstate.Older(list, now, a.idleSince)
	a.idleSince = now
	return out
}
