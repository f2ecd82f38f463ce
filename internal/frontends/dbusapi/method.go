package dbusapi

import (
	"fmt"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// arg is an argument of a method or a signal, with its D-Bus type.
type arg struct{ name, kind string }

// call is one call of a method.
type call struct {
	conn    *dbus.Conn
	sender  string // the caller's unique name, which the bus never gives to another connection
	flags   dbus.Flags
	body    []any       // has the types that the method declares
	who     credentials // the caller; set for methods of the daemon's object only
	waiting bool        // it was admitted as a request that waits for a lease
	leave   func()      // ends its admission; a second call of leave does nothing
}

// method is one method of an interface. It implements [dbus.Method]. godbus runs each call in
// its own goroutine.
type method struct {
	name    string
	in, out []arg
	run     func(call) ([]any, error)
}

// DecodeArguments rejects arguments of other types than the method declares and escapes
// their text. It returns the call as the only argument of [method.Call].
func (m *method) DecodeArguments(conn *dbus.Conn, sender string, msg *dbus.Message, body []any) ([]any, error) {
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
	for i, a := range body {
		if text, ok := a.(string); ok {
			body[i] = sanitize.Text(text)
		}
	}
	return []any{call{conn: conn, sender: sender, flags: msg.Flags, body: body}}, nil
}

// Call runs the method.
func (m *method) Call(args ...any) ([]any, error) { return m.run(args[0].(call)) }

// The rest of [dbus.Method]. godbus does not use it with a decoder of arguments.

func (m *method) NumArguments() int     { return 1 }
func (m *method) NumReturns() int       { return len(m.out) }
func (m *method) ArgumentValue(int) any { return call{} }
func (m *method) ReturnValue(int) any   { return nil }
