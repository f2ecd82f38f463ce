package runstate

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/statefile"
)

// Asked is what asked for a run: a reason, and a person or a program where one is
// known. It says what the host knows, and proves nothing: root can write any of it.
type Asked struct {
	Why string `json:"why"` // "the configuration changed", "dcm use cpx"
	Who *Who   `json:"who,omitempty"`
}

// Who is a process that asked, as it was when it did.
type Who struct {
	UID   uint32 `json:"uid"`
	User  string `json:"user,omitempty"`  // the name of the UID
	Sudo  string `json:"sudo,omitempty"`  // whose sudo or pkexec it is
	Login string `json:"login,omitempty"` // who has logged in (loginuid), by name or number
	PID   int    `json:"pid,omitempty"`
	Unit  string `json:"unit,omitempty"`
}

func (a Asked) String() string {
	if a.Who == nil {
		return a.Why
	}
	return a.Why + ", by " + a.Who.String()
}

func (w Who) String() string {
	text := w.User
	if text == "" {
		text = fmt.Sprintf("uid %d", w.UID)
	}
	var more []string
	if w.Sudo != "" && w.Sudo != w.User {
		more = append(more, "sudo of "+w.Sudo)
	}
	if w.Login != "" && w.Login != w.User && w.Login != w.Sudo {
		more = append(more, "login of "+w.Login)
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	if w.Unit != "" {
		text += " in " + w.Unit
	}
	return text
}

// AskedFile is the note that root's command leaves for the daemon which it has
// started anew: systemd does not tell who asked it. Every such command writes it, as
// a whole, and the daemon takes it away.
const AskedFile = "asked.json"

// WaitingFile is the note of the command that waits for the leases to end.
const WaitingFile = "when-idle.json"

// Note is what is in these files.
type Note struct {
	Version int       `json:"version"`
	Boot    string    `json:"boot"`
	Time    time.Time `json:"time"`
	Asked   Asked     `json:"asked"`
}

// AskedIn is the note for the daemon in the runtime directory.
func AskedIn(dir string) statefile.File[Note] { return noteIn(dir, AskedFile) }

// WaitingIn is the note of the command that waits for the leases to end.
func WaitingIn(dir string) statefile.File[Note] { return noteIn(dir, WaitingFile) }

func noteIn(dir, name string) statefile.File[Note] {
	return file(dir, name, func(n *Note) *int { return &n.Version })
}

// Booted is what the first run of a boot was for.
const Booted = "the host has booted"

// ForRun returns what asked for a run that begins: what the daemon has written down
// before it asked systemd for it. Where it has not asked, or a run has begun since,
// it was somebody who asked systemd; the first run of a boot is part of booting. So is the
// first one after a soft-reboot, which keeps the boot's id: userspace returns when PID 1
// started, and is called only where that decides.
func ForRun(state *State, last *Run, boot string, userspace func() time.Time) Asked {
	if last != nil && last.Boot != boot {
		last = nil
	}
	if state != nil && state.Boot == boot && state.Phase == Applying && (last == nil || last.Started.Before(state.Since)) {
		var asked Asked
		if state.Asked != nil {
			asked = *state.Asked
		}
		if asked.Why != "" {
			return asked
		}
	}
	if last == nil || last.Started.Before(userspace()) {
		return Asked{Why: Booted}
	}
	return Asked{Why: "somebody asked systemd for dcm-apply.service"}
}
