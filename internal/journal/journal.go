// Package journal is a slog handler that writes to systemd's journal with the
// attributes as fields, so that journalctl can select by them: an attribute "gpu"
// becomes DCM_GPU. It knows nothing of what is logged.
//
// The message is for people. What a logger was given with With is context, and a
// field only; what comes with one entry follows its text, unless the text says it.
package journal

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
)

// MessageID is the attribute that becomes MESSAGE_ID, which ties an entry to the
// message catalog (journalctl --catalog).
const MessageID = "message_id"

// Handler writes records to the journal.
type Handler struct {
	name   string
	send   func(text string, p journal.Priority, fields map[string]string) error
	fields map[string]string
	prefix string // the groups
}

// New returns a handler if standard error is connected to the journal, which is
// so in a service that systemd started. name becomes SYSLOG_IDENTIFIER.
func New(name string) (*Handler, bool) {
	connected, err := journal.StderrIsJournalStream()
	if err != nil || !connected {
		return nil, false
	}
	return &Handler{name: name, send: journal.Send}, true
}

// Enabled implements [slog.Handler]: everything but debugging is written.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	with := h.clone()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		key, value := with.add(a)
		if value != "" && !strings.Contains(r.Message, value) {
			text += tail(key, value)
		}
		return true
	})
	with.fields["SYSLOG_IDENTIFIER"] = h.name
	return h.send(text, priority(r.Level), with.fields)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.clone()
	for _, a := range attrs {
		with.add(a)
	}
	return with
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	with := h.clone()
	with.prefix += name + "_"
	return with
}

func (h *Handler) clone() *Handler {
	with := *h
	with.fields = maps.Clone(h.fields)
	if with.fields == nil {
		with.fields = make(map[string]string)
	}
	return &with
}

// add makes an attribute a field, and returns it as a reader of the message alone
// may want it; an id is not for readers.
func (h *Handler) add(a slog.Attr) (key, value string) {
	value = a.Value.Resolve().String()
	switch {
	case value == "":
		return "", ""
	case a.Key == MessageID:
		h.fields["MESSAGE_ID"] = value
		return "", ""
	}
	key = h.prefix + a.Key
	h.fields["DCM_"+field(key)] = value
	return key, value
}

// tail is what a message says of an attribute that its text does not name.
func tail(key, value string) string {
	if strings.ContainsAny(value, " \"\n") {
		value = fmt.Sprintf("%q", value)
	}
	return " " + key + "=" + value
}

// field keeps to what a journal field's name may hold
// (systemd.journal-fields(7)): upper-case letters, digits and underscores.
func field(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return '_'
	}, key)
}

func priority(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	}
	return journal.PriInfo
}
