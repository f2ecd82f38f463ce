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

// lockFile is locked by the one who waits for the leases to end, for as long as he does,
// and not readable for others: a lock of theirs would look like his.
func lockFile(h *host.Host) string { return h.Path("run/dcm/when-idle.lock") }

// Start keeps partitions from being given to more processes until release is called or
// this process ends. Somebody else who does so is told as [filelock.ErrLocked].
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
		_ = note.Remove() // without the lock it says nothing
		unlock()
	}, nil
}

// Holder tells who waits for the leases to end, "" if nobody does or if that may not
// be seen.
func Holder(h *host.Host) string {
	is, err := filelock.Held(lockFile(h))
	if err != nil || !is {
		return ""
	}
	if note, err := runstate.WaitingIn(h.Runtime()).Read(); err == nil && note != nil {
		return note.Asked.String()
	}
	return "somebody"
}

// Notes says what waits, for status.
func Notes(h *host.Host) []string {
	who := Holder(h)
	if who == "" {
		return nil
	}
	var units []string
	for _, l := range host.LeaseHolders(h) {
		units = append(units, l.Unit)
	}
	return []string{fmt.Sprintf("%s waits for the end of all leases (%s), and no new ones are given", who, strings.Join(units, ", "))}
}
