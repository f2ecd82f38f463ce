package host

import (
	"dcm/internal/engine/apply"
	"dcm/internal/engine/history"
)

// History is the last runs, the latest last. Where it cannot be told whether a run is under
// way there is none: one that has no end then was killed.
func (h *Host) History() ([]history.Entry, error) {
	busy, err := apply.UnderWay(h.Lock())
	all, bad := history.Read(h.Path("var/lib/dcm", history.File), busy && err == nil)
	return append([]history.Entry{}, all...), bad
}
