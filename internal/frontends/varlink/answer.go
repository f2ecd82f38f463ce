package varlink

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// answer runs a call and sends its reply. It returns an error if the connection cannot
// continue.
func (s *Server) answer(ctx context.Context, conn net.Conn, from Peer, c Call) error {
	out := func(r reply) error {
		if c.Oneway {
			return nil
		}
		text, err := encode(r)
		if err != nil {
			return err
		}
		if err := conn.SetWriteDeadline(time.Now().Add(s.Limits.MessageTimeout)); err != nil {
			return err
		}
		_, err = conn.Write(text)
		return err
	}
	var send func(any) error
	if c.More {
		send = func(v any) error { return out(reply{Parameters: v, Continues: true}) }
	}
	v, err := s.call(ctx, from, c, send)
	var remote *Error
	switch {
	case errors.As(err, &remote):
		return out(reply{Error: remote.Name, Parameters: remote.Parameters})
	case err != nil:
		return err
	}
	return out(reply{Parameters: v})
}

func (s *Server) call(ctx context.Context, from Peer, c Call, send func(any) error) (any, error) {
	intf, name := split(c.Method)
	if c.upgrade {
		return nil, InvalidParameter("upgrade")
	}
	if intf == serviceInterface {
		return s.serviceMethod(name, c.Parameters)
	}
	i := slices.IndexFunc(s.Interfaces, func(i Interface) bool { return i.Name == intf })
	if i < 0 {
		return nil, interfaceNotFound(intf)
	}
	m, ok := s.Interfaces[i].Methods[name]
	if !ok {
		return nil, methodNotFound(c.Method)
	}
	return m(ctx, from, c.Parameters, send)
}

// serviceMethod runs a method of org.varlink.service.
func (s *Server) serviceMethod(name string, p Parameters) (any, error) {
	switch name {
	case "GetInfo":
		names := []string{serviceInterface}
		for _, i := range s.Interfaces {
			names = append(names, i.Name)
		}
		return struct {
			Info
			Interfaces []string `json:"interfaces"`
		}{s.Info, names}, p.Into(nil)
	case "GetInterfaceDescription":
		var of string
		if err := p.Into(map[string]any{"interface": &of}); err != nil {
			return nil, err
		}
		for _, i := range append([]Interface{{Name: serviceInterface, Description: serviceDescription}}, s.Interfaces...) {
			if i.Name == of {
				return map[string]string{"description": i.Description}, nil
			}
		}
		return nil, interfaceNotFound(of)
	}
	return nil, methodNotFound(serviceInterface + "." + name)
}

const serviceDescription = `# The interface that every varlink service has.
interface org.varlink.service

method GetInfo() -> (vendor: string, product: string, version: string, url: string, interfaces: []string)
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error MethodNotImplemented (method: string)
error InvalidParameter (parameter: string)
error PermissionDenied ()
error ExpectedMore ()
`
