package systemd

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Unit is a unit's state, with the values of org.freedesktop.systemd1(5).
type Unit struct {
	Name       string  // the requested name, which may be an alias; of a template: the name of the instance
	ID         string  // the primary name
	Load       string  // "loaded", "not-found", "masked", "bad-setting", "error"
	Active     string  // "active", "reloading", "inactive", "failed", "activating", "deactivating"
	Sub        string  // "running", "exited", "dead", "auto-restart", …
	Result     string  // of a service's last run: "success", "exit-code", "signal", "timeout", …
	Invocation string  // of the present or the last run, in hexadecimal; "" if it never ran
	Restarts   uint32  // number of restarts by Restart=
	MainPID    uint32  // of a service; 0 if it does not run
	Job        bool    // a job is queued or running
	Oneshot    bool    // Type=oneshot without RemainAfterExit=; read only if not active
	Failed     Command // the command for which a service failed; zero if not known
}

// Settled reports whether the unit has no job and is in no transitional state. A service that
// waits for its automatic restart is "activating".
func (u Unit) Settled() bool {
	return !u.Job && !slices.Contains([]string{"activating", "deactivating", "reloading", "refreshing"}, u.Active)
}

func (u Unit) unsettled() bool { return !u.Settled() }

// Done reports whether a unit is a oneshot whose last run succeeded. Such a unit is inactive.
func (u Unit) Done() bool {
	return u.Oneshot && u.Active == "inactive" && u.Result == "success" && u.Invocation != ""
}

// parallel limits the number of concurrent reads of units.
const parallel = 16

// Fields says what to read of units. More fields cost PID 1 more calls.
type Fields int

const (
	States   Fields = iota // Name, ID, Load, Active, Sub and Job, in one call for all units
	Run                    // and Invocation
	Inactive               // all fields of units that are not active; of others States, and Result of services
	Restarts               // Inactive, and Restarts of active services
	All                    // all fields
)

// List reads units, in the order of the names. A template, "x@.service", yields
// its loaded instances, possibly none; a unit without a file has Load "not-found".
func (c *Conn) List(ctx context.Context, names []string, fields Fields) ([]Unit, error) {
	list, err := c.list(ctx, names)
	if err != nil {
		return nil, err
	}
	units := make([]Unit, len(list))
	for i, l := range list {
		units[i] = l.unit
	}
	if fields == States {
		return units, nil
	}
	err = each(len(units), func(i int) (err error) {
		units[i], err = c.read(ctx, units[i], fields)
		return err
	})
	return units, err
}

// Units is List of all fields.
func (c *Conn) Units(ctx context.Context, names []string) ([]Unit, error) {
	return c.List(ctx, names, All)
}

// each calls f for 0 to n-1, up to [parallel] calls concurrently.
func each(n int, f func(i int) error) error {
	errs, slots := make([]error, n), make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// listed is an entry of PID 1's list of units.
type listed struct {
	unit        Unit
	primary     string
	description string
}

// list reads all units in one call, and one for each template.
func (c *Conn) list(ctx context.Context, names []string) ([]listed, error) {
	var plain []string
	for _, name := range names {
		if !isTemplate(name) {
			plain = append(plain, name)
		}
	}
	var byName []sd.UnitStatus
	if len(plain) > 0 {
		if err := c.call(ctx, &byName, managerPath, managerInterface+".ListUnitsByNames", plain); err != nil {
			return nil, fmt.Errorf("cannot read the units: %w", err)
		}
	}
	// PID 1 omits names that are not valid.
	if len(byName) != len(plain) {
		return nil, fmt.Errorf("cannot read the units: systemd knows %d of %q", len(byName), plain)
	}
	var out []listed
	for _, name := range names {
		if !isTemplate(name) {
			out = append(out, listing(name, byName[0]))
			byName = byName[1:]
			continue
		}
		instances, err := c.instances(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, instances...)
	}
	return out, nil
}

func (c *Conn) instances(ctx context.Context, template string) ([]listed, error) {
	// A backslash escapes in a pattern of fnmatch(3).
	pattern := strings.Replace(strings.ReplaceAll(template, `\`, `\\`), "@.", "@*.", 1)
	out, err := c.matching(ctx, []string{pattern})
	if err != nil {
		return nil, fmt.Errorf("cannot read the instances of %s: %w", template, err)
	}
	return out, nil
}

// matching returns the loaded units whose names match a pattern of fnmatch(3).
func (c *Conn) matching(ctx context.Context, patterns []string) ([]listed, error) {
	var found []sd.UnitStatus
	if err := c.call(ctx, &found, managerPath, managerInterface+".ListUnitsByPatterns", []string{}, patterns); err != nil {
		return nil, err
	}
	var out []listed
	for _, status := range found {
		if status.LoadState != "not-found" { // only another unit refers to it
			out = append(out, listing(status.Name, status))
		}
	}
	sorting.By(out, func(a, b listed) int { return cmp.Compare(a.primary, b.primary) })
	return out, nil
}

func isTemplate(name string) bool { return strings.Contains(name, "@.") }

func listing(name string, s sd.UnitStatus) listed {
	return listed{primary: s.Name, description: s.Description, unit: Unit{
		Name: name, ID: s.Name, Load: s.LoadState, Active: s.ActiveState, Sub: s.SubState, Job: s.JobId != 0,
	}}
}

// read adds fields to what the list says of a unit. It reads single properties, because
// GetAll makes PID 1 read the unit's cgroup, too.
func (c *Conn) read(ctx context.Context, u Unit, fields Fields) (_ Unit, err error) {
	service := strings.HasSuffix(u.Name, ".service")
	switch {
	case u.Active == "active" && (fields == Inactive || fields == Restarts):
		if service {
			u.Result = "success"
			if fields == Restarts {
				err = c.property(ctx, u.Name, serviceInterface, "NRestarts", &u.Restarts)
			}
		}
		return u, err
	case u.Load != "loaded":
		return u, nil
	}
	u.Invocation, err = c.invocation(ctx, u.Name)
	if !service || fields == Run {
		return u, err
	}
	err = errors.Join(err,
		c.property(ctx, u.Name, serviceInterface, "Result", &u.Result),
		c.property(ctx, u.Name, serviceInterface, "NRestarts", &u.Restarts),
		c.property(ctx, u.Name, serviceInterface, "MainPID", &u.MainPID))
	if err == nil && u.Active != "active" {
		u.Oneshot, err = c.oneshot(ctx, u.Name)
	}
	if err == nil && u.Result != "success" {
		u.Failed, err = c.failed(ctx, u.Name)
	}
	return u, err
}

// oneshot reports whether a service becomes inactive after success.
func (c *Conn) oneshot(ctx context.Context, name string) (bool, error) {
	var kind string
	var remains bool
	if err := c.property(ctx, name, serviceInterface, "Type", &kind); err != nil || kind != "oneshot" {
		return false, err
	}
	err := c.property(ctx, name, serviceInterface, "RemainAfterExit", &remains)
	return !remains, err
}

func (c *Conn) invocation(ctx context.Context, unit string) (string, error) {
	var id []byte
	err := c.property(ctx, unit, unitInterface, "InvocationID", &id)
	return hex.EncodeToString(id), err
}

func (c *Conn) property(ctx context.Context, unit, iface, name string, value any) error {
	var v dbus.Variant
	if err := c.call(ctx, &v, unitPath(unit), properties+".Get", iface, name); err != nil {
		return fmt.Errorf("cannot read %s of %s: %w", name, unit, err)
	}
	if err := v.Store(value); err != nil {
		return fmt.Errorf("cannot read %s of %s: %w", name, unit, err)
	}
	if text, ok := value.(*string); ok {
		*text = sanitize.Text(*text)
	}
	return nil
}

// Enabled returns a unit's UnitFileState: "enabled", "disabled", "masked", "static", …; "" if it
// has no file.
func (c *Conn) Enabled(ctx context.Context, name string) (state string, err error) {
	return state, c.property(ctx, name, unitInterface, "UnitFileState", &state)
}
