package systemd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"
)

// Processes moves processes and reads the units that they belong to.
type Processes struct{ t *transport }

// scopeOOMPolicy reports whether scopes of this systemd have an OOMPolicy=. systemd 253
// introduced it, and distributions have it in older versions, Debian in 252.39. init.scope is
// on every host.
func (p Processes) scopeOOMPolicy(ctx context.Context) (bool, error) {
	const scope = "init.scope"
	var policy string
	err := p.t.property(ctx, scope, cgroupInterface(scope), "OOMPolicy", &policy)
	if isRemote(err, "org.freedesktop.DBus.Error.UnknownProperty") {
		return false, nil
	}
	return err == nil, err
}

// Origin returns the properties of a scope for a process of this cgroup, so that the process is
// stopped at the same times as without the scope.
//
// The stop of a service stops all processes of its cgroup, as does the exit of its main process. So
// the scope is stopped with the service, after it. A restart does not stop a scope: see
// [Processes.Leftovers]. If the process is in a scope for which scopes returns true, the new scope
// gets the properties of that scope. Origin returns no properties for processes of sessions, of
// user services, of services with KillMode=process or none, and of services that are being stopped.
//
// If the kernel kills one process of the scope for memory, the others continue.
func (p Processes) Origin(ctx context.Context, cgroup string, scopes func(unit string) bool) ([]Property, error) {
	var out []Property
	has, err := p.scopeOOMPolicy(ctx)
	if err != nil {
		return nil, err
	}
	if has {
		out = append(out, Property{"OOMPolicy", "continue"})
	}
	services, err := p.stoppedWith(ctx, cgroup, scopes)
	if len(services) > 0 {
		out = append(out, Property{"PartOf", services}, Property{"StopPropagatedFrom", services}, Property{"Before", services})
	}
	return out, err
}

// stoppedWith returns the services whose stop ends a process of this cgroup.
func (p Processes) stoppedWith(ctx context.Context, cgroup string, scopes func(unit string) bool) ([]string, error) {
	units := UnitsOf(cgroup)
	if len(units) == 0 {
		return nil, nil
	}
	unit := units[len(units)-1]
	if scopes(unit) {
		var services []string
		err := p.t.property(ctx, unit, unitInterface, "PartOf", &services)
		return services, err
	}
	if !strings.HasSuffix(unit, ".service") || strings.HasPrefix(unit, "user@") {
		return nil, nil
	}
	var kill, active string
	if err := p.t.property(ctx, unit, serviceInterface, "KillMode", &kill); err != nil {
		return nil, err
	}
	if err := p.t.property(ctx, unit, unitInterface, "ActiveState", &active); err != nil {
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
func (p Processes) ServiceRun(ctx context.Context, cgroup string) (service string, run uint64, err error) {
	units := UnitsOf(cgroup)
	if len(units) == 0 || !strings.HasSuffix(units[len(units)-1], ".service") {
		return "", 0, nil
	}
	service = units[len(units)-1]
	err = p.t.property(ctx, service, unitInterface, startedAt, &run)
	return service, run, err
}

// Leftovers returns the scopes that started before this run of a service: those that a
// restart of the service should have ended. It makes one call for each scope of the service.
func (p Processes) Leftovers(ctx context.Context, service string, run uint64, scopes func(unit string) bool) ([]string, error) {
	var parts, out []string
	err := p.t.property(ctx, service, unitInterface, "ConsistsOf", &parts)
	if err != nil {
		return nil, err
	}
	for _, unit := range slices.DeleteFunc(parts, func(unit string) bool { return !scopes(unit) }) {
		var begun uint64
		if err := p.t.property(ctx, unit, unitInterface, startedAt, &begun); err != nil {
			return nil, err
		}
		if begun != 0 && begun < run {
			out = append(out, unit)
		}
	}
	return out, nil
}

// Attach moves a process into the cgroup of a unit, or into the cgroup at path below it ("/" or
// "" for the unit's own).
func (p Processes) Attach(ctx context.Context, unit, below string, pid uint32) error {
	if below == "/" {
		below = ""
	}
	if err := p.t.call(ctx, nil, managerPath, managerInterface+".AttachProcessesToUnit", unit, below, []uint32{pid}); err != nil {
		return fmt.Errorf("cannot move process %d into %s: %w", pid, unit, err)
	}
	return nil
}

// ServiceOf returns the service whose main or control process has that number, "" if there is
// none.
func (p Processes) ServiceOf(ctx context.Context, pid uint32) (string, error) {
	services, err := p.t.matching(ctx, []string{"active", "activating", "reloading", "deactivating"}, "*.service")
	if err != nil {
		return "", err
	}
	for _, s := range services {
		for _, name := range []string{"MainPID", "ControlPID"} {
			var its uint32
			if err := p.t.property(ctx, s.primary, serviceInterface, name, &its); err == nil && its == pid {
				return s.primary, nil
			}
		}
	}
	return "", nil
}

// UnitsOf returns the units of the system's manager on the path of a cgroup, the outermost
// first. Units of a user's manager are not included.
func UnitsOf(cgroup string) []string {
	var out []string
	for name := range strings.SplitSeq(strings.Trim(cgroup, "/"), "/") {
		if !unitname.Valid(name) {
			break // a cgroup below a unit
		}
		out = append(out, name)
		if !strings.HasSuffix(name, ".slice") {
			break
		}
	}
	return out
}
