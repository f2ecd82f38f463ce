package main

import (
	"io"
	"log/slog"

	"dcm/internal/journal"
)

// newLog is the story of a unit: with its fields in the journal when systemd
// runs it, as lines on standard error otherwise.
func newLog(w io.Writer, name string) *slog.Logger {
	if h, ok := journal.New(name); ok {
		return slog.New(h)
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
