package daemon

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
)

// status is the line that systemctl status shows.
func (l *loop) status() string {
	s := l.state
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
	default:
		b.WriteString("Looking at the GPUs")
	}
	if s.Error != nil {
		b.WriteString(": " + oneLine(s.Error.Text))
	}
	if s.Phase != runstate.Waiting && !s.Retry.IsZero() {
		b.WriteString("; trying again at " + s.Retry.Format(time.TimeOnly))
	}
	if s.Config != "" && s.Phase != runstate.Stuck {
		b.WriteString(" (the configuration on disk is not in force: " + oneLine(s.Config) + ")")
	}
	return b.String()
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
