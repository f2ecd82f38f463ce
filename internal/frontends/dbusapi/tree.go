package dbusapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/godbus/dbus/v5"
)

// tree is what is on the bus, object by object. It is the connection's
// [dbus.Handler].
type tree struct {
	mu      sync.RWMutex
	objects map[dbus.ObjectPath][]iface
	hadGPUs bool        // there have been GPUs
	called  atomic.Bool // a call came in
}

// iface is one interface of an object, beside those that every object has.
type iface struct {
	name       string
	methods    []method
	properties []property
}

// change is how a tree differs from the one before.
type change struct {
	path    dbus.ObjectPath
	intf    string
	added   bool // the object
	removed bool
	changed map[string]dbus.Variant
	invalid []string
}

// replace shows other objects and returns what is different, in the order of
// the paths. The first GPUs are no news where nobody has made a call yet: who follows
// the list asks for it first, and finds them in it.
func (t *tree) replace(objects map[dbus.ObjectPath][]iface) []change {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.objects
	t.objects = objects
	news := t.hadGPUs || t.called.Load()
	t.hadGPUs = t.hadGPUs || len(objects) > 1 // the manager
	var out []change
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, ok := objects[path]; !ok {
			out = append(out, change{path: path, intf: before[path][0].name, removed: true})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(objects)) {
		was, ok := before[path]
		for i, now := range objects[path] {
			switch c := (change{path: path, intf: now.name, added: !ok}); {
			case !ok && news:
				c.changed = values(now.properties)
				out = append(out, c)
			case !ok:
			case c.compare(was[i].properties, now.properties):
				out = append(out, c)
			}
		}
	}
	return out
}

// compare notes which properties have other values now.
func (c *change) compare(before, now []property) bool {
	c.changed = make(map[string]dbus.Variant)
	for i, p := range now {
		switch {
		case reflect.DeepEqual(before[i].value, p.value):
		case p.emits == emitsInvalidates:
			c.invalid = append(c.invalid, p.name)
		default:
			c.changed[p.name] = dbus.MakeVariant(p.value)
		}
	}
	return len(c.changed)+len(c.invalid) > 0
}

func values(all []property) map[string]dbus.Variant {
	out := make(map[string]dbus.Variant, len(all))
	for _, p := range all {
		out[p.name] = dbus.MakeVariant(p.value)
	}
	return out
}

// LookupObject returns the object at path. What only leads to objects is one too,
// with nothing to it but its children.
func (t *tree) LookupObject(path dbus.ObjectPath) (dbus.ServerObject, bool) {
	t.called.Store(true) // before the list is read: what is not in it will be news
	t.mu.RLock()
	defer t.mu.RUnlock()
	if own, ok := t.objects[path]; ok {
		return object{t, path, own}, true
	}
	return object{t, path, nil}, len(t.children(path)) > 0
}

// children returns the names directly below a path.
func (t *tree) children(path dbus.ObjectPath) []string {
	prefix := strings.TrimSuffix(string(path), "/") + "/"
	var out []string
	for p := range t.objects {
		if rest, ok := strings.CutPrefix(string(p), prefix); ok {
			name, _, _ := strings.Cut(rest, "/")
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// below returns what the objects below path show, interface by interface.
func (t *tree) below(path dbus.ObjectPath) map[dbus.ObjectPath]map[string]map[string]dbus.Variant {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[dbus.ObjectPath]map[string]map[string]dbus.Variant)
	for p, interfaces := range t.objects {
		if !strings.HasPrefix(string(p), string(path)+"/") {
			continue
		}
		out[p] = make(map[string]map[string]dbus.Variant)
		for _, i := range interfaces {
			out[p][i.name] = values(i.properties)
		}
	}
	return out
}
