package systemd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

// scopeOOMPolicy reports whether scopes of this systemd have an OOMPolicy=. systemd 253
// introduced it, and distributions have it in older versions, Debian in 252.39. init.scope is
// on every host.
func (c *Conn) scopeOOMPolicy(ctx context.Context) (bool, error) {
	const scope = "init.scope"
	var policy string
	err := c.property(ctx, scope, kindInterface(scope), "OOMPolicy", &policy)
	if isRemote(err, "org.freedesktop.DBus.Error.UnknownProperty") {
		return false, nil
	}
	return err == nil, err
}

// Origin returns the properties of a scope for a process of this cgroup, so that the process is
// stopped as without the scope.
//
// The stop of a service stops all processes of its cgroup, as does the exit of its main process.
// So the scope is stopped with the service, after it. A restart does not stop a scope: see
// [Conn.Leftovers]. For a process of a scope for which scopes returns true, the new scope has
// the properties of that scope. There are none for processes of sessions, of user services, of
// services with KillMode=process or none, and of services that are being stopped.
//
// If the kernel kills one process of the scope for memory, the others continue.
func (c *Conn) Origin(ctx context.Context, cgroup string, scopes func(unit string) bool) ([]Property, error) {
	var out []Property
	has, err := c.scopeOOMPolicy(ctx)
	if err != nil {
		return nil, err
	}
	if has {
		out = append(out, Property{"OOMPolicy", "continue"})
	}
	services, err := c.stoppedWith(ctx, cgroup, scopes)
	if len(services) > 0 {
		out = append(out, Property{"PartOf", services}, Property{"StopPropagatedFrom", services}, Property{"Before", services})
	}
	return out, err
}

// stoppedWith returns the services whose stop ends a process of this cgroup.
func (c *Conn) stoppedWith(ctx context.Context, cgroup string, scopes func(unit string) bool) ([]string, error) {
	units := UnitsOf(cgroup)
	if len(units) == 0 {
		return nil, nil
	}
	unit := units[len(units)-1]
	if scopes(unit) {
		var services []string
		err := c.property(ctx, unit, unitInterface, "PartOf", &services)
		return services, err
	}
	if !strings.HasSuffix(unit, ".service") || strings.HasPrefix(unit, "user@") {
		return nil, nil
	}
	var kill, active string
	if err := c.property(ctx, unit, serviceInterface, "KillMode", &kill); err != nil {
		return nil, err
	}
	if err := c.property(ctx, unit, unitInterface, "ActiveState", &active); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"control-group", "mixed"}, kill) || active == "deactivating" {
		return nil, nil
	}
	return []string{unit}, nil
}

const startedAt = "InactiveExitTimestampMonotonic"

// ServiceRun returns the service that a process of this cgroup belongs to and when its run
// started, in microseconds of CLOCK_MONOTONIC. The service is "" if there is none.
func (c *Conn) ServiceRun(ctx context.Context, cgroup string) (service string, run uint64, err error) {
	units := UnitsOf(cgroup)
	if len(units) == 0 || !strings.HasSuffix(units[len(units)-1], ".service") {
		return "", 0, nil
	}
	service = units[len(units)-1]
	err = c.property(ctx, service, unitInterface, startedAt, &run)
	return service, run, err
}

// Leftovers returns the scopes that started before this run of a service: those that a
// restart of the service should have ended. It makes one call for each scope of the service.
func (c *Conn) Leftovers(ctx context.Context, service string, run uint64, scopes func(unit string) bool) ([]string, error) {
	var parts, out []string
	err := c.property(ctx, service, unitInterface, "ConsistsOf", &parts)
	if err != nil {
		return nil, err
	}
	for _, unit := range slices.DeleteFunc(parts, func(unit string) bool { return !scopes(unit) }) {
		var begun uint64
		if err := c.property(ctx, unit, unitInterface, startedAt, &begun); err != nil {
			return nil, err
		}
		if begun != 0 && begun < run {
			out = append(out, unit)
		}
	}
	return out, nil
}

// version returns the major version of PID 1, whose text is as "257.13-1~deb13u1" or "v257".
func (c *Conn) version(ctx context.Context) (int, error) {
	var v dbus.Variant
	if err := c.call(ctx, &v, managerPath, properties+".Get", managerInterface, "Version"); err != nil {
		return 0, fmt.Errorf("cannot read the version of systemd: %w", err)
	}
	text, _ := v.Value().(string)
	return parseVersion(text)
}

func parseVersion(text string) (int, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "systemd "), "v")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("systemd has a version of another form: %q", text)
	}
	return n, nil
}
