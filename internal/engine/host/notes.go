package host

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"dcm/internal/engine/runstate"
)

// Note writes the note of a command before it makes a selection, or a request. selection may be nil.
func (h *Host) Note(asked runstate.Asked, selection *runstate.Selection) (runstate.Note, error) {
	n := runstate.Note{Time: time.Now(), Asked: asked, Selection: selection}
	return n, runstate.AskedIn(h.Runtime(), n).Write(n)
}

// Notes returns the notes of commands, in the order of their times. It removes those of processes that ended
// long ago.
func (h *Host) Notes() ([]runstate.Note, error) {
	var out []runstate.Note
	var bad error
	for _, file := range runstate.AllAsked(h.Runtime()) {
		n, err := file.Valid()
		bad = errors.Join(bad, err)
		switch {
		case n == nil || h.expired(*n):
			bad = errors.Join(bad, file.Remove())
		default:
			out = append(out, *n)
		}
	}
	slices.SortFunc(out, func(a, b runstate.Note) int { return a.Time.Compare(b.Time) })
	return out, bad
}

// expired reports whether a note is old, and its process has ended. The command may wait for a daemon that starts.
func (h *Host) expired(n runstate.Note) bool {
	if time.Since(n.Time).Abs() <= runstate.AnnouncementTTL {
		return false
	}
	if n.Asked.Who == nil {
		return true
	}
	_, err := os.Stat(h.Path("proc", strconv.Itoa(n.Asked.Who.PID)))
	return err != nil
}

// Forget removes a note.
func (h *Host) Forget(n runstate.Note) error { return runstate.AskedIn(h.Runtime(), n).Remove() }
