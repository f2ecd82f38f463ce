package leaseservice

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dcm/internal/leases/lease"
	"dcm/internal/linux/caller"
	"dcm/internal/linux/procstat"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// moveUnits is what undoing a move needs of PID 1.
type moveUnits struct {
	jobs interface {
		Stop(ctx context.Context, unit string) error
	}
	units interface {
		Settle(ctx context.Context, names []string, settled func(systemd.Unit) bool) ([]systemd.Unit, error)
	}
	processes interface {
		Attach(ctx context.Context, unit, below string, pid uint32) error
		ServiceOf(ctx context.Context, pid uint32) (string, error)
	}
	cgroups interface {
		ControlGroup(ctx context.Context, unit string) (string, error)
	}
	transients interface {
		StartScope(ctx context.Context, s systemd.Scope) error
	}
}

// maxUndoRounds is how often a scope is read until it is empty: its processes may fork.
const maxUndoRounds = 20

// Undo waits until the start of a scope is over, moves its processes out, and ends it. A process in it
// may not be the caller, since a systemd before version 254 uses the number, which another process
// may have got. So no process is killed.
func (m *move) Undo(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	if _, err := m.pid1.units.Settle(ctx, []string{unit}, systemd.Unit.Settled); err != nil { // the start moves a process into it
		return fmt.Errorf("%s is not ended: %w", unit, err)
	}
	var failed error
	for range maxUndoRounds {
		pids, err := m.processes.members(unit)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return m.pid1.jobs.Stop(ctx, unit)
		}
		failed = nil
		for _, pid := range pids {
			failed = errors.Join(failed, m.moveBack(ctx, pid, unit))
		}
	}
	return errors.Join(fmt.Errorf("%s is not ended: it has processes that cannot be moved out of it", unit), failed)
}

// moveBack moves a process out of the scope to its former unit if that has Delegate=, since systemd
// moves no process into another active unit. Otherwise the process gets a scope of its own next to
// that unit, with its former limits on memory, tasks and processors.
func (m *move) moveBack(ctx context.Context, pid int, scope string) error {
	origins := m.origins(ctx, pid, scope)
	for _, cgroup := range origins {
		unit, below := split(cgroup)
		if unit == "" {
			continue
		}
		if err := m.pid1.processes.Attach(ctx, unit, below, uint32(pid)); err == nil {
			m.log.Warn("a process was moved back out of a lease that was not granted", "pid", pid, "to", unit, "unit", scope)
			return nil
		}
	}
	if procstat.Ended(m.host.Path("proc", strconv.Itoa(pid))) {
		return nil
	}
	var id [4]byte
	rand.Read(id[:]) // never fails
	s := systemd.Scope{
		Name: fmt.Sprintf("moved-%d-%s.scope", pid, hex.EncodeToString(id[:])), Description: "Process that left " + scope,
		Slice: "system.slice", PID: uint32(pid), Open: true,
	}
	for _, cgroup := range origins {
		if slice := sliceOf(cgroup); slice != "" {
			s.Slice = slice
			if bounds, err := lease.ReadBounds(m.processes.cgroups(), cgroup); err == nil { // otherwise its unit has ended
				s.Extra = limits(bounds)
			}
			break
		}
	}
	err := m.pid1.transients.StartScope(ctx, s)
	if err == nil {
		m.log.Warn("a process was moved out of a lease that was not granted", "pid", pid, "to", s.Name, "slice", s.Slice, "unit", scope)
	}
	return err
}

// origins returns the cgroups that a process may have been in before, the most likely first: a
// process starts in the cgroup of its parent or of its service.
func (m *move) origins(ctx context.Context, pid int, scope string) []string {
	if pid == m.caller.PID && m.caller.Process.Alive() {
		return []string{m.from}
	}
	var out []string
	for up := pid; up > 1; {
		parent, uid, err := caller.Parent(m.host.Path("proc"), up)
		if err != nil {
			break
		}
		if parent <= 1 {
			if service, err := m.pid1.processes.ServiceOf(ctx, uint32(up)); err == nil && service != "" {
				if cgroup, err := m.pid1.cgroups.ControlGroup(ctx, service); err == nil && cgroup != "" {
					out = append(out, cgroup)
				}
			} else if uid == m.caller.Process.UID {
				out = append(out, m.from)
			}
			break
		}
		if cgroup, err := m.processes.cgroup(parent); err == nil && !strings.Contains(cgroup+"/", "/"+scope+"/") {
			return append(out, cgroup)
		}
		up = parent
	}
	return out
}

// split returns the unit of a cgroup, in the system's manager, and the path below it.
func split(cgroup string) (unit, below string) {
	units := systemd.UnitsOf(cgroup)
	if len(units) == 0 {
		return "", ""
	}
	unit = units[len(units)-1]
	_, below, _ = strings.Cut(cgroup, "/"+unit)
	return unit, below
}

// sliceOf returns the innermost slice of a cgroup, in the system's manager; "" if there is none or if
// it is dcm.slice.
func sliceOf(cgroup string) string {
	units := systemd.UnitsOf(cgroup)
	for i := len(units) - 1; i >= 0; i-- {
		if strings.HasSuffix(units[i], ".slice") && units[i] != unitname.Slice {
			return units[i]
		}
	}
	return ""
}
