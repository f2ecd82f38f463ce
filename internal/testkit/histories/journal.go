package histories

import (
	"context"
	"fmt"
	"log/slog"
)

// logger writes into the journal of the history, and passes the messages to the checks.
func (w *world) logger(p *process) *slog.Logger { return slog.New(journal{w: w, p: p}) }

// journal is a [slog.Handler].
type journal struct {
	w *world
	p *process
}

func (journal) Enabled(context.Context, slog.Level) bool { return true }

func (j journal) Handle(_ context.Context, r slog.Record) error {
	text := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text = a.Value.String()
		}
		return true
	})
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	if j.p.dead {
		return nil
	}
	if j.w.log != nil {
		fmt.Fprintf(j.w.log, "%26s | %s %s\n", j.p.name(), r.Message, text)
	}
	return nil
}

func (j journal) WithAttrs([]slog.Attr) slog.Handler { return j }
func (j journal) WithGroup(string) slog.Handler      { return j }
