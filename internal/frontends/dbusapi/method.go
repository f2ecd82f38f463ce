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
	sender  string // the caller's unique name, which the bus vouches for and never gives twice
	flags   dbus.Flags
	body    []any       // of the types that the method declares
	who     credentials // the caller's, of the manager's methods alone
	waiting bool        // it stands in line for a lease
	leave   func()      // lets somebody else in; once
}

// method is one method of an interface. It is a [dbus.Method]. Each call has a
// goroutine of its own.
type method struct {
	name    string
	in, out []arg
	run     func(call) ([]any, error)
}

// DecodeArguments refuses what the method does not declare, escapes the text that
// anybody may send, and makes the one argument that the method is called with.
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

// Call makes the call.
func (m *method) Call(args ...any) ([]any, error) { return m.run(args[0].(call)) }

// The rest of [dbus.Method], which is not asked where arguments are decoded here.

func (m *method) NumArguments() int     { return 1 }
func (m *method) NumReturns() int       { return len(m.out) }
func (m *method) ArgumentValue(int) any { return call{} }
func (m *method) ReturnValue(int) any   { return nil }

// busError is an error as it goes over the bus.
func busError(name, text string) *dbus.Error { return dbus.NewError(name, []any{text}) }
