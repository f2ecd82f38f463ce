package varlink

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// answer makes a call and sends what comes of it. The error is that the connection
// cannot go on.
func (s *Server) answer(ctx context.Context, conn net.Conn, from Peer, c Call) error {
	out := func(r reply) error {
		if c.Oneway {
			return nil
		}
		text, err := encode(r)
		if err != nil {
			return err
		}
		if err := conn.SetWriteDeadline(time.Now().Add(s.Limits.Slow)); err != nil {
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
	var told *Error
	switch {
	case errors.As(err, &told):
		return out(reply{Error: told.Name, Parameters: told.Parameters})
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
	if intf == service {
		return s.about(name, c.Parameters)
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

// about answers for the interface that every service has.
func (s *Server) about(name string, p Parameters) (any, error) {
	switch name {
	case "GetInfo":
		names := []string{service}
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
		for _, i := range append([]Interface{{Name: service, Description: serviceDescription}}, s.Interfaces...) {
			if i.Name == of {
				return map[string]string{"description": i.Description}, nil
			}
		}
		return nil, interfaceNotFound(of)
	}
	return nil, methodNotFound(service + "." + name)
}

const serviceDescription = `# What every varlink service has.
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
