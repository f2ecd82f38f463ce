package journal

import (
	"io"
	"log/slog"
)

// Log returns a logger to the journal if standard error is connected to it, otherwise to w.
func Log(w io.Writer, name string) *slog.Logger {
	if h, ok := New(name); ok {
		return slog.New(h)
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
