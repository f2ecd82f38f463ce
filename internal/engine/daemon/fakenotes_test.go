package daemon

import (
	"slices"
	"time"

	"dcm/internal/engine/runstate"
)

// notes are the notes of commands on the host.
type notes host

func (n *notes) Read() []runstate.Note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.noted)
}

func (n *notes) Forget(one runstate.Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = slices.DeleteFunc(n.noted, func(o runstate.Note) bool { return o.Time.Equal(one.Time) })
}

// note is what a command has written. Its selection may be nil.
func note(why string, who *runstate.Who, s *runstate.Selection) runstate.Note {
	return runstate.Note{Time: time.Now(), Asked: runstate.Asked{Why: why, Who: who}, Selection: s}
}

// command is a command that makes a selection for the profile that is selected already, and a request.
func (h *host) command(why string, s runstate.Selection) <-chan runstate.State {
	who := runstate.Who{PID: 100}
	h.set(func() {
		s.Profile = h.settings.Profile.Name
		h.noted = append(h.noted, note(why, &who, &s))
	})
	return h.request(who)
}
