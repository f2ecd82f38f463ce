package dbusapi

import (
	"slices"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
)

// published contains the objects of one account. The objects do not change.
type published struct {
	objects map[dbus.ObjectPath][]iface

	mu     sync.Mutex
	bodies map[string]func() (dbusconn.Encoded, error)
}

// encoded returns the body of an answer. It is encoded once, since many callers may wait for the same large
// answer. The key identifies the answer, and is not text of a caller.
func (p *published) encoded(key string, value func() any) ([]any, error) {
	p.mu.Lock()
	encode := p.bodies[key]
	if encode == nil {
		encode = sync.OnceValues(func() (dbusconn.Encoded, error) { return dbusconn.Encode(value()) })
		p.bodies[key] = encode
	}
	p.mu.Unlock()
	body, err := encode()
	return []any{body}, err
}

// at returns the object at path. A path that only leads to other objects is an object without interfaces of
// its own.
func (p *published) at(path dbus.ObjectPath) (object, bool) {
	own, ok := p.objects[path]
	return object{p, path, own}, ok || len(p.children(path)) > 0
}

// children returns the names directly below a path.
func (p *published) children(path dbus.ObjectPath) []string {
	prefix := strings.TrimSuffix(string(path), "/") + "/"
	var out []string
	for other := range p.objects {
		if rest, ok := strings.CutPrefix(string(other), prefix); ok {
			name, _, _ := strings.Cut(rest, "/")
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// below returns the properties of the objects below path, by path and interface.
func (p *published) below(path dbus.ObjectPath) map[dbus.ObjectPath]map[string]map[string]dbus.Variant {
	out := make(map[dbus.ObjectPath]map[string]map[string]dbus.Variant)
	for other, interfaces := range p.objects {
		if !strings.HasPrefix(string(other), string(path)+"/") {
			continue
		}
		out[other] = make(map[string]map[string]dbus.Variant)
		for _, i := range interfaces {
			out[other][i.name] = values(i.properties)
		}
	}
	return out
}

// method returns the method that a message calls. The D-Bus specification permits a caller to omit the interface.
func (p *published) method(msg *dbus.Message) (*method, error) {
	path, _ := msg.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	intf, _ := msg.Headers[dbus.FieldInterface].Value().(string)
	name, _ := msg.Headers[dbus.FieldMember].Value().(string)
	o, ok := p.at(path)
	if !ok && intf != peerInterface { // which every path has
		return nil, dbus.MakeNoObjectError(path)
	}
	found := false
	for _, i := range o.interfaces() {
		if intf != "" && i.name != intf {
			continue
		}
		found = true
		for m := range i.methods {
			if i.methods[m].name == name {
				return &i.methods[m], nil
			}
		}
	}
	if !found {
		return nil, dbus.MakeUnknownInterfaceError(intf)
	}
	return nil, dbus.MakeUnknownMethodError(name)
}
