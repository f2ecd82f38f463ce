package runstate

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
)

// Asked is the reason of a run and, if it is known, the process that requested it. It is for
// people to read and proves nothing: root can write any of it.
type Asked struct {
	Why string `json:"why"` // "the configuration changed", "dcm use cpx"
	Who *Who   `json:"who,omitempty"`

	Rolling      bool `json:"rolling,omitempty"`       // change one GPU after another
	IgnoreBudget bool `json:"ignore_budget,omitempty"` // stop more units than the budgets permit
}

// Who is a process that requested a run, at the time of the request.
type Who struct {
	UID   uint32 `json:"uid"`
	User  string `json:"user,omitempty"`  // the name of UID
	Sudo  string `json:"sudo,omitempty"`  // the user that ran sudo or pkexec
	Login string `json:"login,omitempty"` // the user that logged in (loginuid), a name or number
	PID   int    `json:"pid,omitempty"`
	Unit  string `json:"unit,omitempty"`
}

// SameProcess reports whether both are known, and are the same process of the same user.
func (w *Who) SameProcess(other *Who) bool {
	return w != nil && other != nil && w.PID != 0 && w.PID == other.PID && w.UID == other.UID
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

// WaitingFile is the note of the command that waits until leases have ended.
const WaitingFile = "when-idle.json"

// Note is what a command writes before it makes a selection, or a request to the daemon. systemd does not report
// the caller of a start, and the event of an edit has none. Each note has a file of its own, which the daemon removes
// when its state has the content.
type Note struct {
	Version   int        `json:"version"`
	Time      time.Time  `json:"time"`
	Asked     Asked      `json:"asked"`
	Selection *Selection `json:"selection,omitempty"` // that the command is about to make; nil: none

	GPUs []partition.Address `json:"gpus,omitempty"` // whose leases the command waits for; none: all
}

// Announcement is the note of a command that the daemon has read.
type Announcement struct {
	Time      time.Time     `json:"time"`
	Asked     Asked         `json:"asked"`
	Selection *Selection    `json:"selection,omitempty"` // nil: none, or the daemon has taken it up
	Requested bool          `json:"requested,omitempty"` // the command has written the selection, and called the daemon
	Idle      time.Duration `json:"idle,omitempty"`      // how long the daemon was idle since
}

// Same reports whether both are one note of one command.
func (n Note) Same(other Note) bool {
	return n.Time.Equal(other.Time) && n.Asked.Why == other.Asked.Why
}

// AskedIn returns the file of a command's note in the runtime directory.
func AskedIn(dir string, n Note) statefile.File[Note] {
	pid := 0
	if n.Asked.Who != nil {
		pid = n.Asked.Who.PID
	}
	return noteIn(dir, fmt.Sprintf("asked-%d-%d.json", pid, n.Time.UnixNano()))
}

// AllAsked returns the files of all notes.
func AllAsked(dir string) []statefile.File[Note] {
	names, _ := filepath.Glob(filepath.Join(dir, "asked-*.json")) // the pattern is valid
	out := make([]statefile.File[Note], len(names))
	for i, name := range names {
		out[i] = noteIn(dir, filepath.Base(name))
	}
	return out
}

// WaitingIn returns WaitingFile in the runtime directory.
func WaitingIn(dir string) statefile.File[Note] { return noteIn(dir, WaitingFile) }

func noteIn(dir, name string) statefile.File[Note] {
	return file(dir, name, func(n *Note) *int { return &n.Version })
}

// Booted is the reason of the first run of a boot.
const Booted = "the host has booted"

// Installed is the reason of the first run after an installation, if there was none since the boot.
const Installed = "dcm was installed"

// ForRun returns the reason of a run that begins: the one that the daemon saved before it
// requested the run. If the daemon did not request it, or another run has begun since, another
// caller of systemd did. The first run of a boot has the reason Booted. So has the first run after
// a soft-reboot, which keeps the boot id: userspace returns when PID 1 started, and is called only
// if that decides. The first run has the reason Installed if dcm was installed after PID 1 had started, which installed
// reports.
func ForRun(state *State, last *Run, boot string, userspace func() time.Time, installed func() bool) Asked {
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
	if last == nil && installed() {
		return Asked{Why: Installed}
	}
	if last == nil || last.Started.Before(userspace()) {
		return Asked{Why: Booted}
	}
	return Asked{Why: "dcm-apply.service was started directly"}
}
