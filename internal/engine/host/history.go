package host

import (
	"dcm/internal/engine/history"
	"dcm/internal/linux/filelock"
)

// History returns the last runs, the latest at the end. If the lock of runs cannot be read, a run
// without an end counts as killed.
func History(h *Host) ([]history.Entry, error) {
	busy, err := filelock.Held(h.Locks().Run())
	all, bad := history.Read(h.Path("var/lib/dcm", history.File), busy && err == nil)
	return append([]history.Entry{}, all...), bad
}
