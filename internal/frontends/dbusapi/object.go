package dbusapi

import (
	"fmt"
	"os"
	"strings"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/sanitize"
)

// object is the object at one path at the time of a call.
type object struct {
	published *published
	path      dbus.ObjectPath
	own       []iface
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
				return o.published.encoded(objectManagerInterface, func() any { return o.published.below(o.path) })
			}},
		}})
	}
	out = append(out, iface{name: peerInterface, methods: []method{
		{name: "Ping", run: func(call) ([]any, error) { return nil, nil }},
		{name: "GetMachineId", out: []arg{{"machine_uuid", "s"}}, run: machineID},
	}})
	for _, i := range out[len(o.own):] {
		for m := range i.methods {
			i.methods[m].kind = kindOf(admission.Read)
		}
	}
	return out
}

func (o object) get(c call) ([]any, error) {
	intf, name := c.body[0].(string), c.body[1].(string)
	for _, i := range o.own {
		for _, p := range i.properties {
			if (intf == "" || intf == i.name) && p.name == name {
				return o.published.encoded(string(o.path)+" "+i.name+"."+p.name, func() any { return dbus.MakeVariant(p.value) })
			}
		}
	}
	return nil, busError(errorUnknownProp, fmt.Sprintf("%s has no property %s.%s", o.path, intf, name))
}

func (o object) getAll(c call) ([]any, error) {
	intf := c.body[0].(string)
	found := intf == ""
	for _, i := range o.interfaces() {
		found = found || intf == i.name
	}
	if !found {
		return nil, busError(errorUnknownIntf, fmt.Sprintf("%s has no interface %s", o.path, intf))
	}
	return o.published.encoded(string(o.path)+" "+intf, func() any {
		out := make(map[string]dbus.Variant)
		for _, i := range o.own {
			if intf == "" || intf == i.name {
				for name, value := range values(i.properties) {
					out[name] = value
				}
			}
		}
		return out
	})
}

func (o object) set(c call) ([]any, error) {
	return nil, busError(errorReadOnly, fmt.Sprintf("property %s is read-only; use the methods", c.body[1]))
}

// machineID returns the id of the host, see machine-id(5).
func machineID(call) ([]any, error) {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return nil, busError(errorFailed, sanitize.Error(err).Error())
	}
	return []any{sanitize.Text(strings.TrimSpace(string(id)))}, nil
}
