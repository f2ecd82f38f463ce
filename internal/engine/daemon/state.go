package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
	"dcm/internal/text"
)

// published is the daemon's state, with the functions that publish it.
type published struct {
	runstate.State
	save   func(runstate.State) error
	notify Notifier
	log    *slog.Logger
	line   string // the status line that was sent last
	notes  announced
}

// enter changes the phase. It is published with the rest of the state.
func (s *published) enter(phase runstate.Phase, failure *runstate.Error) {
	if phase != runstate.Waiting && phase != runstate.Rolling {
		s.Retry = time.Time{}
	}
	if phase != s.Phase {
		s.Since = time.Now()
	}
	s.Phase, s.Error = phase, failure
}

// publish sends the unit's status line, if it has changed, and saves the state, in this order: the
// publisher that save calls sends a longer status line for the same state, which must replace this
// one.
func (s *published) publish() error {
	if line := statusLine(s.State); line != s.line {
		s.line = line
		if err := s.notify.Status(line); err != nil {
			s.log.Warn(err.Error())
		}
	}
	err := s.save(s.State)
	if err == nil {
		s.notes.saved()
	}
	return err
}

// intent is a run that is about to begin. The pass continues when it is saved.
type intent struct {
	unit     string           // to be restarted
	change   *runstate.Change // of single GPUs
	users    runstate.InstanceUsers
	progress *runstate.Progress // of a change that is made in rounds
	pending  pendingStarts      // the units to start if the run fails
	asked    runstate.Asked
	saved    chan error // of 1
}

// saveIntent saves what a run is about to do. If that fails no unit may be stopped: the units to
// start after a failure would be lost. wish is the hash of the run's settings.
func (s *published) saveIntent(i intent, wish string) error {
	before := s.State
	i.pending.into(&s.State)
	s.Tries++
	s.Tried, s.Wish = time.Now(), wish
	s.Change, s.Users, s.Progress = i.change, i.users, i.progress
	if i.unit != unitname.Reserve { // which changes no GPU
		s.Holders, s.Left, s.Asked = nil, nil, &i.asked
		s.enter(runstate.Applying, nil)
	}
	if err := s.publish(); err != nil {
		s.State = before
		return fmt.Errorf("no unit is stopped, since the units to start again cannot be saved: %w", err)
	}
	return nil
}

func (s *published) announce() {
	if err := s.publish(); err != nil {
		s.log.Error(err.Error())
	}
}

// statusLine is the line that systemctl status shows.
func statusLine(s runstate.State) string {
	var b strings.Builder
	switch s.Phase {
	case runstate.Idle:
		b.WriteString("No profile is selected; the GPUs are left alone")
	case runstate.InSync:
		fmt.Fprintf(&b, "Profile %s is on the GPUs", s.Profile)
	case runstate.Rebooting:
		fmt.Fprintf(&b, "Rebooting, to put profile %s on the GPUs", s.Profile)
	case runstate.Drifted:
		fmt.Fprintf(&b, "Profile %s is not on the GPUs any more", s.Profile)
	case runstate.Waiting:
		fmt.Fprintf(&b, "Profile %s is not on the GPUs", s.Profile)
		if !s.Retry.IsZero() {
			b.WriteString(", trying again at " + s.Retry.Format(time.TimeOnly))
		}
	case runstate.Stuck:
		if s.Profile != "" {
			fmt.Fprintf(&b, "Profile %s is not on the GPUs", s.Profile)
		} else {
			b.WriteString("Not started")
		}
	case runstate.Applying:
		fmt.Fprintf(&b, "Putting profile %s on the GPUs", s.Profile)
	case runstate.Rolling:
		fmt.Fprintf(&b, "Putting profile %s on the GPUs in rounds", s.Profile)
		if !s.Retry.IsZero() {
			b.WriteString(", next round at " + s.Retry.Format(time.TimeOnly))
		}
	default:
		b.WriteString("Checking the GPUs")
	}
	if p := s.Progress; p != nil {
		fmt.Fprintf(&b, " (%s)", p)
	}
	if s.Error != nil {
		b.WriteString(": " + text.OneLine(s.Error.Text))
	}
	if s.Phase != runstate.Waiting && s.Phase != runstate.Rolling && !s.Retry.IsZero() {
		b.WriteString("; trying again at " + s.Retry.Format(time.TimeOnly))
	}
	if s.Config != "" && s.Phase != runstate.Stuck {
		b.WriteString(" (the configuration on disk is not effective: " + text.OneLine(s.Config) + ")")
	}
	return b.String()
}
