package drain

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/filelock"
	"dcm/internal/sanitize"
)

// lockFile is locked by the process that waits for the end of the leases. Only root can open it, so
// no other user can lock it.
func lockFile(h *host.Host) string { return h.Path("run/dcm/when-idle.lock") }

// Start prevents new leases until release is called or this process ends. It returns
// [filelock.ErrLocked] if another process already waits.
func Start(h *host.Host, command []string) (release func(), err error) {
	unlock, err := filelock.TryLock(lockFile(h))
	if err != nil {
		return nil, err
	}
	note := runstate.WaitingIn(h.Runtime())
	if err := note.Write(runstate.Note{Boot: h.BootID(), Time: time.Now(),
		Asked: runstate.Asked{Why: sanitize.Text(strings.Join(command, " ")), Who: h.Self()}}); err != nil {
		unlock()
		return nil, err
	}
	return func() {
		_ = note.Remove() // without the lock it has no effect
		unlock()
	}, nil
}

// Holder describes the process that waits for the end of the leases. It returns "" if there is none,
// or if the caller has no permission to test the lock.
func Holder(h *host.Host) string {
	held, err := filelock.Held(lockFile(h))
	if err != nil || !held {
		return ""
	}
	if note, err := runstate.WaitingIn(h.Runtime()).Read(); err == nil && note != nil {
		return note.Asked.String()
	}
	return "another process"
}

// Notes returns a text for the status while a process waits.
func Notes(h *host.Host) []string {
	holder := Holder(h)
	if holder == "" {
		return nil
	}
	var units []string
	for _, l := range host.LeaseHolders(h) {
		units = append(units, l.Unit)
	}
	return []string{fmt.Sprintf("%s waits for the end of all leases (%s), and no new ones are given", holder, strings.Join(units, ", "))}
}
