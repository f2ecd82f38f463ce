package dbusapi

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
)

// tree contains the objects on the bus.
type tree struct {
	mu      sync.RWMutex
	now     *published
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
	var before map[dbus.ObjectPath][]iface
	if t.now != nil {
		before = t.now.objects
	}
	t.now = &published{objects: objects, bodies: make(map[string]func() (dbusconn.Encoded, error))}
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

// latest returns the objects that were published last.
func (t *tree) latest() *published {
	t.called.Store(true) // before the objects are read, so that signals report later additions
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.now
}
