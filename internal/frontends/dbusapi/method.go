package dbusapi

import (
	"fmt"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/linux/dbusconn"
	"dcm/internal/sanitize"
)

// arg is an argument of a method or a signal, with its D-Bus type.
type arg struct{ name, kind string }

// call is one call of a method.
type call struct {
	conn     *dbusconn.Conn
	sender   string // the caller's unique name, which the bus never gives to another connection
	flags    dbus.Flags
	body     []any       // has the types that the method declares
	who      credentials // the caller
	received *admission.Received
	waiting  bool   // it was admitted as a request that waits for a lease
	leave    func() // ends its admission; a second call of leave does nothing
}

// method is one method of an interface.
type method struct {
	name    string
	in, out []arg
	kind    func(call) admission.Kind
	run     func(call) ([]any, error) // returns the values of out, or one [dbusconn.Encoded]
}

// decode rejects arguments of other types than the method declares and escapes their text.
func (m *method) decode(msg *dbus.Message) ([]any, error) {
	want, got := "", ""
	for _, a := range m.in {
		want += a.kind
	}
	if s, ok := msg.Headers[dbus.FieldSignature].Value().(dbus.Signature); ok {
		got = s.String()
	}
	if got != want {
		return nil, busError(errorArguments, fmt.Sprintf("%s takes arguments of type %q, not %q", m.name, want, got))
	}
	for i, a := range msg.Body {
		if text, ok := a.(string); ok {
			msg.Body[i] = sanitize.Text(text)
		}
	}
	return msg.Body, nil
}
