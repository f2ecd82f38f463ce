package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Scope is a unit for a process that already runs.
type Scope struct {
	Name        string // "….scope"
	Description string
	Slice       string
	PID         uint32
	PIDFD       *os.File // of the process; without it PID 1 uses the number, which may be reused by then
	Allow       []string // device nodes that it may open, in addition to null, zero, terminals and the like
	Open        bool     // it may open every device; Allow is not used
	Extra       []Property
}

// Property is a property of a unit, with the name that StartTransientUnit takes.
type Property struct {
	Name  string
	Value any
}

type property struct {
	Name  string
	Value dbus.Variant
}

type permission struct{ Path, Access string }

// StartScope creates a scope and moves a process into it. It returns when the process is in the
// scope. The scope ends with its last process, and survives a daemon-reexec. It is an error if
// there is a unit of that name.
func (c *Conn) StartScope(ctx context.Context, s Scope) error {
	return c.startTransient(ctx, s.Name, func(job *dbus.ObjectPath) error {
		if s.PIDFD != nil {
			return c.transientFD(ctx, job, s)
		}
		return c.transient(ctx, job, s.Name, s.properties())
	})
}

// transient creates a unit and queues its start.
func (c *Conn) transient(ctx context.Context, job *dbus.ObjectPath, name string, properties []property) error {
	return c.once(ctx, job, managerPath, managerInterface+".StartTransientUnit", name, "fail", properties, []struct {
		Name       string
		Properties []property
	}{})
}

// scopePIDFDs is the version of systemd that introduced PIDFDs= of scopes.
const scopePIDFDs = 254

// PIDFDs reports whether PID 1 accepts pidfds for scopes.
func (c *Conn) PIDFDs(ctx context.Context) (bool, error) {
	version, err := c.version(ctx)
	return version >= scopePIDFDs, err
}

// transientFD is transient for a scope with a pidfd.
func (c *Conn) transientFD(ctx context.Context, job *dbus.ObjectPath, s Scope) error {
	l, err := c.session(ctx)
	if err != nil {
		return err
	}
	body := []any{s.Name, "fail", s.properties(), []struct {
		Name       string
		Properties []property
	}{}}
	msg := &dbus.Message{
		Type:  dbus.TypeMethodCall,
		Flags: dbus.FlagNoAutoStart,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(service), dbus.FieldPath: dbus.MakeVariant(managerPath), dbus.FieldInterface: dbus.MakeVariant(managerInterface),
			dbus.FieldMember: dbus.MakeVariant("StartTransientUnit"), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
		},
		Body: body,
	}
	call, files := l.Exchange(ctx, msg, s.PIDFD)
	for _, f := range files {
		f.Close()
	}
	return sanitize.Error(call.Store(job))
}

// ErrNoProcess says that PID 1 has started a scope without the process: the process has exited,
// or PID 1 has lost its number in a daemon-reexec.
var ErrNoProcess = errors.New("systemd has moved no process into it")

// Attach moves a process into the cgroup of a unit, or into the cgroup at path below it ("/" or
// "" for the unit's own).
func (c *Conn) Attach(ctx context.Context, unit, below string, pid uint32) error {
	if below == "/" {
		below = ""
	}
	if err := c.call(ctx, nil, managerPath, managerInterface+".AttachProcessesToUnit", unit, below, []uint32{pid}); err != nil {
		return fmt.Errorf("cannot move process %d into %s: %w", pid, unit, err)
	}
	return nil
}

// ServiceOf returns the service whose main or control process has that number, "" if there is
// none.
func (c *Conn) ServiceOf(ctx context.Context, pid uint32) (string, error) {
	var all []sd.UnitStatus
	states := []string{"active", "activating", "reloading", "deactivating"}
	if err := c.call(ctx, &all, managerPath, managerInterface+".ListUnitsByPatterns", states, []string{"*.service"}); err != nil {
		return "", fmt.Errorf("cannot list the services: %w", err)
	}
	for _, u := range all {
		for _, name := range []string{"MainPID", "ControlPID"} {
			var its uint32
			if err := c.property(ctx, u.Name, serviceInterface, name, &its); err == nil && its == pid {
				return u.Name, nil
			}
		}
	}
	return "", nil
}

// startTransient creates and starts a unit by queue, and waits until it is active.
func (c *Conn) startTransient(ctx context.Context, name string, queue func(job *dbus.ObjectPath) error) error {
	if err := c.awaitJob(ctx, name, queue, c.startDone(ctx, name)); err != nil {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	return nil
}

// startDone reports whether the start of a transient unit is over; the error is that it failed.
func (c *Conn) startDone(ctx context.Context, name string) func(result string, certain bool) (bool, error) {
	return func(result string, certain bool) (bool, error) {
		units, err := c.List(ctx, []string{name}, States)
		if err != nil {
			return false, err
		}
		switch u := units[0]; {
		case u.Active == "active" && !u.Job:
			return true, nil
		case result != "" && result != "done":
			return true, fmt.Errorf("%w: its job ended with %q", ErrNoProcess, sanitize.Text(result))
		case result == "done", !certain && u.Settled():
			return true, fmt.Errorf("%w: it is %s", ErrNoProcess, u.Active)
		}
		return false, nil
	}
}

func (s Scope) properties() []property {
	allow := make([]permission, len(s.Allow))
	for i, node := range s.Allow {
		allow[i] = permission{node, "rwm"}
	}
	process := Property{"PIDs", []uint32{s.PID}}
	if s.PIDFD != nil {
		process = Property{"PIDFDs", []dbus.UnixFDIndex{0}}
	}
	list := []Property{
		{"Description", s.Description}, {"Slice", s.Slice}, process,
		// A failed scope is unloaded; otherwise its name would appear among the holders.
		{"CollectMode", "inactive-or-failed"},
	}
	if !s.Open {
		list = append(list, Property{"DevicePolicy", closed}, Property{"DeviceAllow", allow})
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

// Stop queues the stop of a unit and does not wait. It is no error if the unit is not loaded.
func (c *Conn) Stop(ctx context.Context, name string) error {
	err := c.call(ctx, nil, managerPath, managerInterface+".StopUnit", name, "replace")
	if err != nil && !isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("cannot stop %s: %w", name, err)
	}
	return nil
}

// Term is the time that a scope may run.
type Term struct {
	Began time.Time
	Limit time.Duration // 0 for no limit
}

// Terms returns the terms of scopes by name, without scopes that have ended.
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

// UnitsInSlice returns the units below a slice and the slices in it that are not inactive, by
// name. known returns the paths of a unit's DeviceAllow= if the caller has them, so that they
// are not read; known may be nil.
func (c *Conn) UnitsInSlice(ctx context.Context, slice string, known func(unit string) (allow []string, ok bool)) ([]Tenant, error) {
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
		out[i] = tenant(list[i])
		if known != nil {
			if allow, ok := known(out[i].Unit); ok {
				out[i].Allow = allow
				return nil
			}
		}
		out[i], err = c.allowed(ctx, list[i].unit, out[i])
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

func tenant(l listed) Tenant {
	return Tenant{Unit: sanitize.Text(l.unit.Name), Active: l.unit.Active, Description: sanitize.Text(l.description)}
}

// allowed reads the DeviceAllow= of a unit. If the unit has ended, the result has no
// ActiveState.
func (c *Conn) allowed(ctx context.Context, u Unit, t Tenant) (Tenant, error) {
	kind := kindInterface(u.Name)
	if kind == "" {
		return t, nil
	}
	var allow []permission
	if err := c.property(ctx, u.Name, kind, "DeviceAllow", &allow); err != nil {
		if now, again := c.list(ctx, []string{u.Name}); again == nil && now[0].unit.Load != "loaded" {
			return Tenant{}, nil
		}
		return t, err
	}
	for _, p := range allow {
		t.Allow = append(t.Allow, p.Path)
	}
	return t, nil
}

// ControlGroup returns the path of a unit's cgroup from the root of the tree, "" if it has none
// or has ended.
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

// kindInterface returns the D-Bus interface with the properties of a unit's cgroup, "" if units
// of that type have none.
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
