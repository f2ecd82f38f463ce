package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/filelock"
	"dcm/internal/sanitize"
)

// lockFile is locked by the process that waits for the end of leases. Only root can open it, so
// no other user can lock it.
func lockFile(h *host.Host) string { return h.Path("run/dcm/when-idle.lock") }

// Drain prevents new leases until End is called or this process ends.
type Drain struct {
	host   *host.Host
	asked  runstate.Asked
	unlock func()
}

// Start prevents new leases of the GPUs, of all if there are none given. It returns
// [filelock.ErrLocked] if another process already waits.
func Start(h *host.Host, command []string, gpus []partition.Address) (*Drain, error) {
	unlock, err := filelock.TryLock(lockFile(h))
	if err != nil {
		return nil, err
	}
	d := &Drain{h, runstate.Asked{Why: sanitize.Text(strings.Join(command, " ")), Who: h.Self()}, unlock}
	if err := d.Limit(gpus); err != nil {
		unlock()
		return nil, err
	}
	return d, nil
}

// Limit replaces the GPUs of which no new leases are given.
func (d *Drain) Limit(gpus []partition.Address) error {
	return runstate.WaitingIn(d.host.Runtime()).Write(runstate.Note{Time: time.Now(), Asked: d.asked, GPUs: gpus})
}

// End permits new leases.
func (d *Drain) End() {
	_ = runstate.WaitingIn(d.host.Runtime()).Remove() // without the lock it has no effect
	d.unlock()
}

// Wait is a process that waits for the end of leases.
type Wait struct {
	Holder string              // the process; "" if none waits
	GPUs   []partition.Address // whose leases it waits for; none: all
}

// Now returns the process that waits for the end of leases. It returns none if the caller has no
// permission to test the lock.
func Now(h *host.Host) Wait {
	held, err := filelock.Held(lockFile(h))
	if err != nil || !held {
		return Wait{}
	}
	if note, err := runstate.WaitingIn(h.Runtime()).Read(); err == nil && note != nil {
		return Wait{note.Asked.String(), note.GPUs}
	}
	return Wait{Holder: "another process"}
}

// Everything reports whether the process waits for the leases of all GPUs.
func (w Wait) Everything() bool { return w.Holder != "" && len(w.GPUs) == 0 }

// Concerns reports whether the process waits for the leases of a GPU.
func (w Wait) Concerns(gpu partition.Address) bool {
	return w.Everything() || slices.Contains(w.GPUs, gpu)
}

// NoteOf reports whether a text of [Notes] is about that holder.
func NoteOf(holder, text string) bool {
	return strings.HasPrefix(text, holder+waits)
}

const waits = " waits for the end of "

// Notes returns a text for the status while a process waits.
func Notes(h *host.Host) []string {
	w := Now(h)
	switch {
	case w.Holder == "":
		return nil
	case !w.Everything():
		gpus := make([]string, len(w.GPUs))
		for i, a := range w.GPUs {
			gpus[i] = string(a)
		}
		return []string{fmt.Sprintf("%s%sthe leases of %s, and no new ones are granted on these GPUs", w.Holder, waits, strings.Join(gpus, ", "))}
	}
	var units []string
	for _, l := range host.LeaseHolders(h) {
		units = append(units, l.Unit)
	}
	return []string{fmt.Sprintf("%s%sall leases (%s), and no new ones are granted", w.Holder, waits, strings.Join(units, ", "))}
}
