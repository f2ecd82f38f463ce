package host

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/sanitize"
)

// Who tells of a process of that user what this host knows of it; a PID of 0 is none.
// It is for people to read: a process may have ended, and its number be another's.
func (h *Host) Who(pid int, uid uint32) *runstate.Who {
	w := &runstate.Who{UID: uid, User: userName(strconv.Itoa(int(uid))), PID: pid}
	if pid <= 0 {
		return w
	}
	w.Unit = gpu.UnitOf(h.Path("proc"), pid)
	login, err := os.ReadFile(h.Path("proc", strconv.Itoa(pid), "loginuid"))
	const none = "4294967295" // nobody has logged in: a service, or a kernel without audit
	if id := sanitize.Text(strings.TrimSpace(string(login))); err == nil && id != none && id != "" {
		w.Login = UserOrID(id)
	}
	return w
}

// Self is Who for this process, which knows by whose sudo or pkexec it is.
func (h *Host) Self() *runstate.Who {
	w := h.Who(os.Getpid(), uint32(os.Getuid()))
	for _, key := range []string{"SUDO_UID", "PKEXEC_UID"} {
		if id := sanitize.Env(key); id != "" && w.Sudo == "" {
			w.Sudo = UserOrID(id)
		}
	}
	return w
}

// UserOrID is the name of a user, or the number if it has none here.
func UserOrID(id string) string {
	if name := userName(id); name != "" {
		return name
	}
	return "uid " + id
}

// UserName is the name of a user, or "uid 1000" for one without a name here.
func UserName(uid uint32) string { return UserOrID(strconv.FormatUint(uint64(uid), 10)) }

func userName(id string) string {
	u, err := user.LookupId(id)
	if err != nil {
		return ""
	}
	return sanitize.Text(u.Username)
}

// Sign leaves a note for the daemon that is about to be started, of who has it
// started and by which command.
func (h *Host) Sign(command []string) error {
	return runstate.AskedIn(h.Runtime()).Write(runstate.Note{Boot: h.BootID(), Time: time.Now(), Asked: runstate.Asked{
		Why: sanitize.Text(strings.Join(command, " ")), Who: h.Self(),
	}})
}

// noteLifetime is how long a note may lie until the daemon that it is for is there.
const noteLifetime = time.Minute

// Signed takes the note away and returns what it says, zero without one of now.
func (h *Host) Signed() (runstate.Asked, error) {
	note, err := runstate.AskedIn(h.Runtime()).Read()
	if note == nil && err == nil {
		return runstate.Asked{}, nil
	}
	err = errors.Join(err, runstate.AskedIn(h.Runtime()).Remove())
	if note == nil || note.Boot != h.BootID() || time.Since(note.Time).Abs() > noteLifetime {
		return runstate.Asked{}, err
	}
	return note.Asked, err
}
