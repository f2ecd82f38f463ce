package host

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/linux/filelock"
	"dcm/internal/sanitize"
)

// waiting is locked by the one who waits for the leases to end, for as long as he does,
// and not readable for others: a lock of theirs would look like his.
func (h *Host) waiting() string { return h.Path("run/dcm/when-idle.lock") }

// Lessees are processes that were given partitions, one for each lease.
func (h *Host) Lessees() []gpu.Holder { return h.leases() }

// Drain keeps partitions from being given to more processes until release is called or
// this process ends. Somebody else who does so is told as [filelock.ErrLocked].
func (h *Host) Drain(command []string) (release func(), err error) {
	unlock, err := filelock.TryLock(h.waiting())
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

// Draining tells who waits for the leases to end, "" if nobody does or if that may not
// be seen.
func (h *Host) Draining() string {
	is, err := filelock.Held(h.waiting())
	if err != nil || !is {
		return ""
	}
	if note, err := runstate.WaitingIn(h.Runtime()).Read(); err == nil && note != nil {
		return note.Asked.String()
	}
	return "somebody"
}

// drained says what waits, for status.
func (h *Host) drained() []string {
	who := h.Draining()
	if who == "" {
		return nil
	}
	var units []string
	for _, l := range h.leases() {
		units = append(units, l.Unit)
	}
	return []string{fmt.Sprintf("%s waits for the end of all leases (%s), and no new ones are given", who, strings.Join(units, ", "))}
}
