package daemon

import (
	"slices"

	"dcm/internal/engine/runstate"
)

// A command writes a note, then its selection, and then calls the daemon. The configuration has only the profile of
// the selection; the note has the rest. The daemon may read the configuration at any time between. So it reads the
// configuration first and the notes after it, and keeps each note until the configuration selects its profile.

// readNotes adds the notes that commands have written.
func (s *published) readNotes() { s.Announced = s.notes.update(s.Announced) }

// ageNotes removes the notes that are too old. It is called while no pass is under way. A configuration that cannot be
// used hides the selections of commands.
func (s *published) ageNotes() {
	if s.Config == "" {
		s.Announced = s.notes.age(s.Announced)
	}
}

// choose determines the selection in effect for a configuration that was read.
func (s *published) choose(now Settings) {
	profile := ""
	if now.Selected {
		profile = now.Profile.Name
	}
	s.readNotes()
	s.Selection, s.Announced = runstate.TakeUp(s.Selection, s.Announced, profile)
}

// noted removes the note of a process and returns its reason, zero if there is none. If by is nil, it is the
// first note whose selection is in effect, or that has none.
func (s *published) noted(by *runstate.Who) runstate.Asked {
	for i := range s.Announced {
		a := &s.Announced[i]
		asked := a.Asked
		switch {
		case by == nil && a.Selection != nil, by != nil && !by.SameProcess(asked.Who):
			continue
		case a.Selection != nil: // it is in effect, or replaced, when the configuration is read again
			a.Requested = true
		default:
			s.Announced = slices.Delete(slices.Clone(s.Announced), i, i+1)
		}
		return asked
	}
	return runstate.Asked{}
}

// manner adds to the reason of a pass how the selection in effect is put on the GPUs.
func (s *published) manner(why runstate.Asked) runstate.Asked {
	if chosen := s.Selection; chosen != nil {
		why.Rolling, why.IgnoreBudget = chosen.Rolling, chosen.IgnoreBudget
	}
	return why
}
