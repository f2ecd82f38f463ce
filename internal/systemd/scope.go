package systemd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/foreign"
	"dcm/internal/sorting"
)

// Scope is a unit for a process that runs already.
type Scope struct {
	Name        string // "….scope"
	Description string
	Slice       string
	PID         uint32
	Allow       []string // device nodes that it may open, beside null, zero, terminals and the like
	Extra       []Property
}

// Property is one of a unit's, by the name that StartTransientUnit takes.
type Property struct {
	Name  string
	Value any
}

type property struct {
	Name  string
	Value dbus.Variant
}

type permission struct{ Path, Access string }

// StartScope moves a process into a scope of its own and returns when it is in it.
// The scope is gone when its last process has ended; nothing else ends or changes it,
// a daemon-reexec neither. A second one of the name is refused.
func (c *Conn) StartScope(ctx context.Context, s Scope) error {
	ear, err := c.listen(ctx, unitRules(s.Name))
	if err != nil {
		return err
	}
	defer c.hub.forget(ear)
	ear.follow(s.Name)
	ear.rests()
	var job dbus.ObjectPath
	err = c.transient(ctx, &job, s.Name, s.properties())
	if err != nil && !lost(err) {
		return fmt.Errorf("cannot start %s: %w", s.Name, err)
	}
	return c.scopeUp(ctx, s.Name, job, ear)
}

// transient has PID 1 make a unit and queue its start.
func (c *Conn) transient(ctx context.Context, job *dbus.ObjectPath, name string, properties []property) error {
	return c.once(ctx, job, managerPath, managerInterface+".StartTransientUnit", name, "fail", properties, []struct {
		Name       string
		Properties []property
	}{})
}

// scopeUp waits for the end of the start. PID 1 tells of that, and is not kept from it by
// being asked; where it was replaced under the question the unit tells whether it was
// heard.
func (c *Conn) scopeUp(ctx context.Context, name string, job dbus.ObjectPath, ear *ear) error {
	for {
		// First what was heard, and then a look: one that is older than the end of the
		// start shows the scope as it was before.
		if result, certain := ear.result(job); result != "" || !certain {
			if over, err := c.begun(ctx, name, result, certain); over {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot start %s: %w", name, ctx.Err())
		case <-ear.wake:
		}
	}
}

// begun judges a start by how its job has ended, "" where that is not known, and by the
// unit.
func (c *Conn) begun(ctx context.Context, name, result string, certain bool) (over bool, err error) {
	list, err := c.list(ctx, []string{name})
	if err != nil {
		return true, err
	}
	u := list[0].unit
	switch {
	case u.Active == "active" && !u.Job:
		return true, nil
	case result != "" && result != "done":
		return true, fmt.Errorf("cannot start %s: systemd says %q", name, result)
	case result == "done", !certain && u.Settled():
		return true, fmt.Errorf("cannot start %s: it is %s: the process has ended", name, u.Active)
	}
	return false, nil
}

func (s Scope) properties() []property {
	allow := make([]permission, len(s.Allow))
	for i, node := range s.Allow {
		allow[i] = permission{node, "rwm"}
	}
	list := []Property{
		{"Description", s.Description}, {"Slice", s.Slice}, {"PIDs", []uint32{s.PID}},
		{"DevicePolicy", closed}, {"DeviceAllow", allow},
		// Nothing is left of it in "failed", where its name would look like a holder's.
		{"CollectMode", "inactive-or-failed"},
	}
	return variants(slices.Concat(list, s.Extra))
}

func variants(list []Property) []property {
	out := make([]property, len(list))
	for i, p := range list {
		out[i] = property{p.Name, dbus.MakeVariant(p.Value)}
	}
	return out
}

// Stop has a unit stopped, and does not wait for it. A unit that is not loaded is.
func (c *Conn) Stop(ctx context.Context, name string) error {
	err := c.call(ctx, nil, managerPath, managerInterface+".StopUnit", name, "replace")
	if err != nil && !isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("cannot stop %s: %w", name, err)
	}
	return nil
}

// Term is how long a scope may last.
type Term struct {
	Began time.Time
	Limit time.Duration // 0 for no limit
}

// Terms returns the terms of scopes by name, without those that have ended.
func (c *Conn) Terms(ctx context.Context, scopes []string) (map[string]Term, error) {
	terms := make([]Term, len(scopes))
	err := each(len(scopes), func(i int) error {
		var limit, began uint64 // microseconds
		err := c.property(ctx, scopes[i], kindInterface(scopes[i]), "RuntimeMaxUSec", &limit)
		if err == nil {
			err = c.property(ctx, scopes[i], unitInterface, "ActiveEnterTimestamp", &began)
		}
		if err != nil || began == 0 {
			if now, again := c.list(ctx, scopes[i:i+1]); again == nil && (now[0].unit.Load != "loaded" || inactive(now[0].unit)) {
				return nil
			}
			return err
		}
		terms[i].Began = time.UnixMicro(int64(began))
		if limit != math.MaxUint64 {
			terms[i].Limit = time.Duration(limit) * time.Microsecond
		}
		return nil
	})
	out := make(map[string]Term)
	for i, name := range scopes {
		if !terms[i].Began.IsZero() {
			out[name] = terms[i]
		}
	}
	return out, err
}

// Tenant is a unit below a slice.
type Tenant struct {
	Unit        string
	Active      string // systemd's ActiveState
	Description string
	Allow       []string // the paths of its DeviceAllow=, as PID 1 has them
}

// Tenants returns the units below a slice that are not inactive, those in slices below
// it too, by name.
func (c *Conn) Tenants(ctx context.Context, slice string) ([]Tenant, error) {
	names, err := c.below(ctx, slice)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	list, err := c.list(ctx, names)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l listed) bool { return l.unit.Load != "loaded" || inactive(l.unit) })
	out := make([]Tenant, len(list))
	err = each(len(list), func(i int) (err error) {
		out[i], err = c.tenant(ctx, list[i].unit)
		return err
	})
	sorting.By(out, func(a, b Tenant) int { return strings.Compare(a.Unit, b.Unit) })
	return slices.DeleteFunc(out, func(t Tenant) bool { return t.Active == "" }), err
}

func inactive(u Unit) bool { return !u.Job && (u.Active == "inactive" || u.Active == "failed") }

func (c *Conn) below(ctx context.Context, slice string) ([]string, error) {
	var names []string
	if err := c.property(ctx, slice, unitInterface, "SliceOf", &names); err != nil {
		return nil, err
	}
	out := slices.Clone(names)
	for _, n := range names {
		if strings.HasSuffix(n, ".slice") {
			more, err := c.below(ctx, n)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// tenant reads what a unit may open. One that has ended meanwhile is a Tenant without
// an ActiveState.
func (c *Conn) tenant(ctx context.Context, u Unit) (Tenant, error) {
	t := Tenant{Unit: foreign.Text(u.Name), Active: u.Active}
	kind := kindInterface(u.Name)
	if kind == "" {
		return t, nil
	}
	var allow []permission
	err := c.property(ctx, u.Name, kind, "DeviceAllow", &allow)
	if err == nil {
		err = c.property(ctx, u.Name, unitInterface, "Description", &t.Description)
	}
	if err != nil {
		if now, again := c.list(ctx, []string{u.Name}); again == nil && now[0].unit.Load != "loaded" {
			return Tenant{}, nil
		}
		return t, err
	}
	t.Description = foreign.Text(t.Description)
	for _, p := range allow {
		t.Allow = append(t.Allow, p.Path)
	}
	return t, nil
}

// ControlGroup returns the path of a unit's cgroup from the root of the tree. It is "" for a
// unit that has none, or that has ended.
func (c *Conn) ControlGroup(ctx context.Context, unit string) (path string, err error) {
	kind := kindInterface(unit)
	if kind == "" {
		return "", nil
	}
	if err = c.property(ctx, unit, kind, "ControlGroup", &path); err == nil {
		return path, nil
	}
	if now, again := c.list(ctx, []string{unit}); again == nil && now[0].unit.Load != "loaded" {
		return "", nil
	}
	return "", err
}

// kindInterface is where the properties of a unit's cgroup are; "" where it has none.
func kindInterface(unit string) string {
	for suffix, name := range map[string]string{
		".service": "Service", ".scope": "Scope", ".slice": "Slice", ".socket": "Socket", ".mount": "Mount", ".swap": "Swap",
	} {
		if strings.HasSuffix(unit, suffix) {
			return service + "." + name
		}
	}
	return ""
}
