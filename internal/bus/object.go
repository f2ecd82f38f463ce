package bus

import (
	"fmt"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"
)

// object is what is at one path, as it was when a call came in.
type object struct {
	tree *tree
	path dbus.ObjectPath
	own  []shown
}

// LookupInterface returns the interface of that name, and for "" all of them as
// one: a caller may leave the name out.
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

// methods are those that a call may find in one interface.
type methods []method

func (m methods) LookupMethod(name string) (dbus.Method, bool) {
	for i := range m {
		if m[i].name == name {
			return &m[i], true
		}
	}
	return nil, false
}

// interfaces are the object's own and those of the specification.
func (o object) interfaces() []shown {
	out := append([]shown{}, o.own...)
	out = append(out, shown{name: introspectable, methods: []method{
		{name: "Introspect", out: []arg{{"xml", "s"}}, run: o.introspect},
	}})
	if len(o.own) > 0 {
		out = append(out, shown{name: properties, methods: []method{
			{name: "Get", in: []arg{{"interface", "s"}, {"property", "s"}}, out: []arg{{"value", "v"}}, run: o.get},
			{name: "GetAll", in: []arg{{"interface", "s"}}, out: []arg{{"properties", "a{sv}"}}, run: o.getAll},
			{name: "Set", in: []arg{{"interface", "s"}, {"property", "s"}, {"value", "v"}}, run: o.set},
		}})
	}
	if o.path == Path {
		out = append(out, shown{name: objectManager, methods: []method{
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
	return nil, fault(errorUnknownProp, fmt.Sprintf("%s has no property %s.%s", o.path, intf, name))
}

func (o object) getAll(c call) ([]any, error) {
	intf := c.body[0].(string)
	out := make(map[string]dbus.Variant)
	found := intf == "" || intf == peer
	for _, i := range o.interfaces() {
		if intf == "" || intf == i.name {
			found = true
			for name, value := range values(i.properties) {
				out[name] = value
			}
		}
	}
	if !found {
		return nil, fault(errorUnknownIntf, fmt.Sprintf("%s has no interface %s", o.path, intf))
	}
	return []any{out}, nil
}

func (o object) set(c call) ([]any, error) {
	return nil, fault(errorReadOnly, fmt.Sprintf("%s cannot be set: what changes something is a method", c.body[1]))
}

func (o object) introspect(call) ([]any, error) {
	node := introspect.Node{}
	for _, i := range o.interfaces() {
		node.Interfaces = append(node.Interfaces, i.describe())
	}
	o.tree.mu.RLock()
	defer o.tree.mu.RUnlock()
	for _, name := range o.tree.children(o.path) {
		node.Children = append(node.Children, introspect.Node{Name: name})
	}
	return []any{string(introspect.NewIntrospectable(&node))}, nil
}

// describe is the interface for introspection.
func (i shown) describe() introspect.Interface {
	out := introspect.Interface{Name: i.name, Signals: signals(i.name)}
	for _, m := range i.methods {
		out.Methods = append(out.Methods, introspect.Method{Name: m.name, Args: append(args("in", m.in), args("out", m.out)...)})
	}
	for _, p := range i.properties {
		d := introspect.Property{Name: p.name, Type: dbus.SignatureOf(p.value).String(), Access: "read"}
		if p.emits != "" {
			d.Annotations = []introspect.Annotation{{Name: emitsChanged, Value: p.emits}}
		}
		out.Properties = append(out.Properties, d)
	}
	return out
}

func args(direction string, all []arg) []introspect.Arg {
	var out []introspect.Arg
	for _, a := range all {
		out = append(out, introspect.Arg{Name: a.name, Type: a.kind, Direction: direction})
	}
	return out
}

// signals of the interfaces that have any.
func signals(intf string) []introspect.Signal {
	signal := func(name string, types ...arg) introspect.Signal {
		return introspect.Signal{Name: name, Args: args("", types)}
	}
	switch intf {
	case properties:
		return []introspect.Signal{signal("PropertiesChanged", arg{"interface", "s"}, arg{"changed", "a{sv}"}, arg{"invalidated", "as"})}
	case objectManager:
		return []introspect.Signal{
			signal("InterfacesAdded", arg{"path", "o"}, arg{"interfaces", "a{sa{sv}}"}),
			signal("InterfacesRemoved", arg{"path", "o"}, arg{"interfaces", "as"}),
		}
	}
	return nil
}
