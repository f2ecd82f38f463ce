package host

import (
	"os"
	"os/user"
	"strconv"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/sanitize"
)

// Who returns the identity of a process of a user. A PID of 0 means that the process is unknown.
// The result is for people to read: if the process has ended, another one may have its PID.
func (h *Host) Who(pid int, uid uint32) *runstate.Who {
	w := &runstate.Who{UID: uid, User: userName(strconv.Itoa(int(uid))), PID: pid}
	if pid <= 0 {
		return w
	}
	w.Unit = gpu.UnitOf(h.Path("proc"), pid)
	login, err := os.ReadFile(h.Path("proc", strconv.Itoa(pid), "loginuid"))
	const none = "4294967295" // without a login: a service, or a kernel without audit
	if id := sanitize.Text(strings.TrimSpace(string(login))); err == nil && id != none && id != "" {
		w.Login = UserOrID(id)
	}
	return w
}

// Self returns the identity of this process, with the user that ran sudo or pkexec.
func (h *Host) Self() *runstate.Who {
	w := h.Who(os.Getpid(), uint32(os.Getuid()))
	for _, key := range []string{"SUDO_UID", "PKEXEC_UID"} {
		if id := sanitize.Env(key); id != "" && w.Sudo == "" {
			w.Sudo = UserOrID(id)
		}
	}
	return w
}

// UserOrID returns the name of a user, or "uid 1000" if it has none on this host.
func UserOrID(id string) string {
	if name := userName(id); name != "" {
		return name
	}
	return "uid " + id
}

// UserName is UserOrID for a number.
func UserName(uid uint32) string { return UserOrID(strconv.FormatUint(uint64(uid), 10)) }

func userName(id string) string {
	u, err := user.LookupId(id)
	if err != nil {
		return ""
	}
	return sanitize.Text(u.Username)
}

// Asked returns this process as the one that requests a run by a command.
func (h *Host) Asked(command []string) runstate.Asked {
	return runstate.Asked{Why: sanitize.Text(strings.Join(command, " ")), Who: h.Self()}
}
