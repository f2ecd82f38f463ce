package journal

import (
	"io"
	"log/slog"
)

// Log is the story of a unit: with its fields in the journal when systemd runs it,
// as lines on w otherwise.
func Log(w io.Writer, name string) *slog.Logger {
	if h, ok := New(name); ok {
		return slog.New(h)
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
