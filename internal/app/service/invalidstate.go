package service

import (
	"fmt"
	"log/slog"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/filelock"
)

// discardInvalid moves the state files aside that this version of dcm cannot read. They count as missing, and the
// writers of some, such as report.json, write them with the next change only.
func discardInvalid(h *host.Host, log *slog.Logger) {
	if busy, err := filelock.Held(h.Locks().Run()); err != nil || busy {
		return // a run may replace them now
	}
	for _, invalid := range runstate.Invalid(h.Runtime(), h.KnownGPUs()) {
		to, err := invalid.MoveAside()
		if err != nil {
			log.Warn(fmt.Sprintf("%v; cannot move it aside: %v", invalid, err))
			continue
		}
		log.Warn(fmt.Sprintf("%v; moved to %s", invalid, to))
	}
}
