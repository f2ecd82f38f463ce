// Package varlink implements a server of the varlink protocol (varlink.org): JSON objects over a
// stream, each terminated by a NUL. It supports calls with one reply, several replies or none, the
// standard errors, and org.varlink.service, which varlinkctl(1) uses to introspect a service.
//
// It must not know any other interface. The file mode of the socket determines who may connect. The
// size, the duration and the number of messages are limited for every caller.
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

// Call is a client's call.
type Call struct {
	Method     string     // with its interface, "org.varlink.service.GetInfo"
	Parameters Parameters // by name, each in JSON
	More       bool       // the client accepts several replies
	Oneway     bool       // the client wants no reply

	upgrade bool
}

// Parameters are the parameters of a call by name.
type Parameters map[string]json.RawMessage

// reply is a reply in the form of the protocol.
type reply struct {
	Parameters any    `json:"parameters,omitempty"`
	Continues  bool   `json:"continues,omitempty"` // another reply follows
	Error      string `json:"error,omitempty"`
}

// Error is an error of an interface, with its parameters. It is the reply to a call.
type Error struct {
	Name       string // "org.varlink.service.InvalidParameter"
	Parameters any    // a value that is encoded as a JSON object
}

func (e *Error) Error() string {
	text, err := json.Marshal(e.Parameters)
	if err != nil {
		return e.Name
	}
	return e.Name + " " + string(text)
}

// serviceInterface is the interface that every service has.
const serviceInterface = "org.varlink.service"

func interfaceNotFound(name string) *Error {
	return &Error{serviceInterface + ".InterfaceNotFound", map[string]string{"interface": name}}
}

func methodNotFound(name string) *Error {
	return &Error{serviceInterface + ".MethodNotFound", map[string]string{"method": name}}
}

// InvalidParameter is the reply to a call with an unusable or missing parameter.
func InvalidParameter(name string) *Error {
	return &Error{serviceInterface + ".InvalidParameter", map[string]string{"parameter": name}}
}

// ExpectedMore is the reply to a call without More whose method sends several replies.
func ExpectedMore() *Error { return &Error{serviceInterface + ".ExpectedMore", struct{}{}} }

// Into stores the parameters in values, which contains a pointer for each name. It returns
// [InvalidParameter] for a parameter that is missing, unknown or of another type.
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

// errMalformed is returned for a message that is not a call. The connection ends, since there
// is nothing to reply to.
var errMalformed = errors.New("not a varlink call")

// parse parses a message without its NUL. Unlike in package json, names of fields are
// case-sensitive.
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

// split separates a method's name from its interface.
func split(method string) (intf, name string) {
	dot := strings.LastIndexByte(method, '.')
	return method[:dot], method[dot+1:]
}

// errTooLarge is returned for a message above the limit. The connection ends.
var errTooLarge = errors.New("the message is too large")

// readMessage reads up to the next NUL. It returns io.EOF at the end of the stream between two
// messages.
func readMessage(r *bufio.Reader, limit int) ([]byte, error) {
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

// encode returns a message with its NUL. JSON never contains one.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(text, 0), nil
}
