// Package varlink speaks the protocol of that name (varlink.org) over a stream: JSON
// objects, each ended by a NUL. It has what a service needs: calls that are answered once,
// more than once, or not at all, the errors that every service has, and
// org.varlink.service, by which varlinkctl(1) introspects one.
//
// It knows no method but those of org.varlink.service. Whoever is let in by the socket's
// mode may call; how large a message is, how long it takes to come, and how many there
// are at a time has bounds all the same.
package varlink

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Call is what a client asks.
type Call struct {
	Method     string     // with its interface, "org.varlink.service.GetInfo"
	Parameters Parameters // by name, each in JSON
	More       bool       // the client takes several answers
	Oneway     bool       // the client takes none

	upgrade bool
}

// Parameters are those of a call.
type Parameters map[string]json.RawMessage

// reply is what goes back.
type reply struct {
	Parameters any    `json:"parameters,omitempty"`
	Continues  bool   `json:"continues,omitempty"` // there is another one to come
	Error      string `json:"error,omitempty"`
}

// Error is an error of an interface, with its parameters. It is the answer to a call.
type Error struct {
	Name       string // "org.varlink.service.InvalidParameter"
	Parameters any    // of a type that becomes a JSON object
}

func (e *Error) Error() string {
	text, err := json.Marshal(e.Parameters)
	if err != nil {
		return e.Name
	}
	return e.Name + " " + string(text)
}

// service is the interface that every service has.
const service = "org.varlink.service"

func interfaceNotFound(name string) *Error {
	return &Error{service + ".InterfaceNotFound", map[string]string{"interface": name}}
}

func methodNotFound(name string) *Error {
	return &Error{service + ".MethodNotFound", map[string]string{"method": name}}
}

// InvalidParameter is the answer to a call with a parameter that cannot be used, or
// without one that has to be there.
func InvalidParameter(name string) *Error {
	return &Error{service + ".InvalidParameter", map[string]string{"parameter": name}}
}

// ExpectedMore is the answer to a call that makes sense with More alone.
func ExpectedMore() *Error { return &Error{service + ".ExpectedMore", struct{}{}} }

// Into sets each of the values that the parameters name. One that is missing, unknown or of
// another type is an [InvalidParameter].
func (p Parameters) Into(values map[string]any) error {
	for name := range p {
		if _, ok := values[name]; !ok {
			return InvalidParameter(name)
		}
	}
	for name, to := range values {
		text, ok := p[name]
		if !ok || string(text) == "null" || json.Unmarshal(text, to) != nil {
			return InvalidParameter(name)
		}
	}
	return nil
}

// errMalformed is that of a message which is no call: there is nothing to answer to, and
// the connection ends.
var errMalformed = errors.New("not a varlink call")

// parse reads a message, without the NUL. Names are taken as they are written: a client
// that writes "Method" calls none.
func parse(message []byte) (Call, error) {
	var fields map[string]json.RawMessage
	if !utf8.Valid(message) || json.Unmarshal(message, &fields) != nil || fields == nil {
		return Call{}, errMalformed
	}
	var c Call
	for name, to := range map[string]any{"method": &c.Method, "parameters": &c.Parameters, "more": &c.More, "oneway": &c.Oneway, "upgrade": &c.upgrade} {
		if text, ok := fields[name]; ok && json.Unmarshal(text, to) != nil {
			return Call{}, fmt.Errorf("%w: %s is of another type", errMalformed, name)
		}
	}
	if !strings.Contains(c.Method, ".") || c.More && c.Oneway {
		return Call{}, errMalformed
	}
	return c, nil
}

// split parts a method into its interface and its own name.
func split(method string) (intf, name string) {
	dot := strings.LastIndexByte(method, '.')
	return method[:dot], method[dot+1:]
}

// errTooLarge ends a connection.
var errTooLarge = errors.New("a message is too large")

// message reads up to the next NUL. Between two messages the end of the stream is io.EOF.
func message(r *bufio.Reader, limit int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice(0)
		if len(out)+len(part) > limit+1 {
			return nil, errTooLarge
		}
		out = append(out, part...)
		switch {
		case err == nil:
			return out[:len(out)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(out) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// encode is a message with its NUL. JSON has none inside.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(text, 0), nil
}
