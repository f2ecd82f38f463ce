// Package journal is a slog handler that writes to systemd's journal, with the attributes as
// fields for journalctl(1): an attribute "gpu" becomes DCM_GPU, and a list becomes one field for
// each element.
//
// Attributes of a logger ([slog.Logger.With]) become fields only. Attributes of one record are
// also added to the message, unless the message contains their value.
package journal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"dcm/internal/sanitize"
)

// MessageID is the attribute that becomes MESSAGE_ID, which refers to the message
// catalog (journalctl --catalog).
const MessageID = "message_id"

// Handler writes records to the journal.
type Handler struct {
	name   string
	send   func([]field) error
	fields []field
	prefix string // the names of the groups, see WithGroup
}

// New returns a handler if standard error is connected to the journal, as in a service. name becomes
// SYSLOG_IDENTIFIER.
func New(name string) (*Handler, bool) {
	if !connected(os.Stderr, sanitize.Env("JOURNAL_STREAM")) {
		return nil, false
	}
	return &Handler{name: name, send: (&sender{path: Socket}).send}, true
}

// Enabled implements [slog.Handler]. Debug records are not written.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	with := h.clone()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		key, values := with.add(a)
		if value := strings.Join(values, ","); value != "" && !strings.Contains(r.Message, value) {
			text += tail(key, value)
		}
		return true
	})
	own := []field{{"MESSAGE", text}, {"PRIORITY", priority(r.Level)}, {"SYSLOG_IDENTIFIER", h.name}}
	return h.send(append(own, with.fields...))
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
	with.fields = slices.Clone(h.fields)
	return &with
}

// add sets the field of an attribute, or several fields of one name if the value is a []string. It
// returns the key and the values for the message. For [MessageID] the key is "".
func (h *Handler) add(a slog.Attr) (key string, values []string) {
	value := a.Value.Resolve()
	values, several := value.Any().([]string)
	if !several {
		values = []string{value.String()}
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	if len(values) == 0 {
		return "", nil
	}
	key = h.prefix + a.Key
	name := "DCM_" + upper(key)
	if a.Key == MessageID {
		name, key = "MESSAGE_ID", ""
	}
	h.fields = slices.DeleteFunc(h.fields, func(f field) bool { return f.name == name })
	for _, v := range values {
		h.fields = append(h.fields, field{name, v})
	}
	if key == "" {
		return "", nil
	}
	return key, values
}

// tail returns the text that adds an attribute to a message.
func tail(key, value string) string {
	if strings.ContainsAny(value, " \"\n") {
		value = fmt.Sprintf("%q", value)
	}
	return " " + key + "=" + value
}

// upper converts a key to a valid name of a journal field: upper-case letters, digits and underscores
// (systemd.journal-fields(7)).
func upper(key string) string {
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

// priority returns the priority of syslog(3) for a level.
func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "3"
	case l >= slog.LevelWarn:
		return "4"
	}
	return "6"
}
