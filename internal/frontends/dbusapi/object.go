package dbusapi

import (
	"fmt"

	"github.com/godbus/dbus/v5"
)

// object is the object at one path at the time of a call.
type object struct {
	tree *tree
	path dbus.ObjectPath
	own  []iface
}

// LookupInterface returns the interface with that name. For "" it returns the methods of all
// interfaces, since the D-Bus specification permits a caller to omit the interface.
func (o object) LookupInterface(name string) (dbus.Interface, bool) {
	var out methods
	found := false
	for _, i := range o.interfaces() {
		if name == "" || i.name == name {
			out, found = append(out, i.methods...), true
		}
	}
	return out, found
}

// methods implements [dbus.Interface].
type methods []method

func (m methods) LookupMethod(name string) (dbus.Method, bool) {
	for i := range m {
		if m[i].name == name {
			return &m[i], true
		}
	}
	return nil, false
}

// interfaces returns the object's own interfaces and those of the D-Bus specification.
func (o object) interfaces() []iface {
	out := append([]iface{}, o.own...)
	out = append(out, iface{name: introspectableInterface, methods: []method{
		{name: "Introspect", out: []arg{{"xml", "s"}}, run: o.introspect},
	}})
	if len(o.own) > 0 {
		out = append(out, iface{name: propertiesInterface, methods: []method{
			{name: "Get", in: []arg{{"interface", "s"}, {"property", "s"}}, out: []arg{{"value", "v"}}, run: o.get},
			{name: "GetAll", in: []arg{{"interface", "s"}}, out: []arg{{"properties", "a{sv}"}}, run: o.getAll},
			{name: "Set", in: []arg{{"interface", "s"}, {"property", "s"}, {"value", "v"}}, run: o.set},
		}})
	}
	if o.path == Path {
		out = append(out, iface{name: objectManagerInterface, methods: []method{
			{name: "GetManagedObjects", out: []arg{{"objects", "a{oa{sa{sv}}}"}}, run: func(call) ([]any, error) {
				return []any{o.tree.below(o.path)}, nil
			}},
		}})
	}
	return out
}

func (o object) get(c call) ([]any, error) {
	intf, name := c.body[0].(string), c.body[1].(string)
	for _, i := range o.own {
		for _, p := range i.properties {
			if (intf == "" || intf == i.name) && p.name == name {
				return []any{dbus.MakeVariant(p.value)}, nil
			}
		}
	}
	return nil, busError(errorUnknownProp, fmt.Sprintf("%s has no property %s.%s", o.path, intf, name))
}

func (o object) getAll(c call) ([]any, error) {
	intf := c.body[0].(string)
	out := make(map[string]dbus.Variant)
	found := intf == "" || intf == peerInterface
	for _, i := range o.interfaces() {
		if intf == "" || intf == i.name {
			found = true
			for name, value := range values(i.properties) {
				out[name] = value
			}
		}
	}
	if !found {
		return nil, busError(errorUnknownIntf, fmt.Sprintf("%s has no interface %s", o.path, intf))
	}
	return []any{out}, nil
}

func (o object) set(c call) ([]any, error) {
	return nil, busError(errorReadOnly, fmt.Sprintf("property %s is read-only; use the methods", c.body[1]))
}
