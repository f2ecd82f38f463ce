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

// tree contains the objects on the bus. It implements [dbus.Handler].
type tree struct {
	mu      sync.RWMutex
	objects map[dbus.ObjectPath][]iface
	hadGPUs bool        // there have been objects of GPUs
	called  atomic.Bool // a call has arrived
}

// iface is one interface of an object, without those that every object has.
type iface struct {
	name       string
	methods    []method
	properties []property
}

// change is a difference between two trees, for one interface of one object.
type change struct {
	path    dbus.ObjectPath
	intf    string
	added   bool // the object is new
	removed bool // the object is gone
	changed map[string]dbus.Variant
	invalid []string
}

// replace sets the objects and returns the changes, sorted by path. It does not return the addition
// of the first GPUs if no call has arrived yet: every client gets the list with its first call.
func (t *tree) replace(objects map[dbus.ObjectPath][]iface) []change {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.objects
	t.objects = objects
	news := t.hadGPUs || t.called.Load()
	t.hadGPUs = t.hadGPUs || len(objects) > 1 // one object is the daemon's
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

// compare sets the properties whose values differ, and reports whether there are any.
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

// LookupObject returns the object at path. A path that only leads to other objects is an
// object without interfaces of its own.
func (t *tree) LookupObject(path dbus.ObjectPath) (dbus.ServerObject, bool) {
	t.called.Store(true) // before the objects are read, so that signals report later additions
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

// below returns the properties of the objects below path, by path and interface.
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
