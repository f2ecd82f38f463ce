package service

import (
	"log/slog"
	"os"

	"dcm/internal/engine/history"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// historyWriter writes a run into the history, and logs its reason. A host without a writable /var,
// for example a diskless one, has the journal alone.
type historyWriter struct {
	path  string
	log   *slog.Logger
	begun bool
}

func newHistoryWriter(h *host.Host, log *slog.Logger) *historyWriter {
	// systemd makes it, by StateDirectory=; elsewhere it may be absent.
	_ = os.MkdirAll(h.Path("var/lib/dcm"), 0o755)
	return &historyWriter{path: h.Path("var/lib/dcm", history.File), log: log}
}

// note is handed each form of the run's report: the first, and the last.
func (c *historyWriter) note(r runstate.Run) {
	over := !r.Finished.IsZero()
	if c.begun && !over {
		return
	}
	if !c.begun {
		c.begun = true
		log := c.log
		if w := r.Asked.Who; w != nil {
			log = log.With("uid", w.UID, "user", w.User, "sudo", w.Sudo, "login", w.Login, "by_unit", w.Unit)
		}
		log.With("asked", r.Asked.Why).Info("a run begins: " + r.Asked.String())
	}
	if err := history.Append(c.path, history.Of(r)); err != nil {
		c.log.Warn(err.Error())
	}
}

// notes are the notes of commands. It implements [daemon.Notes].
type notes struct {
	host *host.Host
	log  *slog.Logger
}

func (n notes) Read() []runstate.Note {
	list, err := n.host.Notes()
	if err != nil {
		n.log.Warn(err.Error())
	}
	return list
}

func (n notes) Forget(one runstate.Note) {
	if err := n.host.Forget(one); err != nil {
		n.log.Warn(err.Error())
	}
}
