package host

import (
	"dcm/internal/engine/history"
	"dcm/internal/linux/filelock"
)

// History is the last runs, the latest last. Where it cannot be told whether a run is under
// way there is none: one that has no end then was killed.
func History(h *Host) ([]history.Entry, error) {
	busy, err := filelock.Held(h.RunLock())
	all, bad := history.Read(h.Path("var/lib/dcm", history.File), busy && err == nil)
	return append([]history.Entry{}, all...), bad
}
