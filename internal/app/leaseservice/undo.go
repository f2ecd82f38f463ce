package leaseservice

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/leases/lease"
	"dcm/internal/linux/caller"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// moveUnits is what undoing a move needs of PID 1.
type moveUnits struct {
	jobs interface {
		Stop(ctx context.Context, unit string) error
	}
	units interface {
		Settle(ctx context.Context, names []string) ([]systemd.Unit, error)
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

// rounds is how often a scope is looked at until it is empty: what is in it may fork.
const maxUndoRounds = 20

// Undo waits until the start of a scope is over, empties it and then ends it. A process that
// is in it may not be the caller: a systemd before version 254 goes by the number alone,
// which may have become another one's. So none is killed, whosesoever it is.
func (m *move) Undo(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	if _, err := m.pid1.units.Settle(ctx, []string{unit}); err != nil { // the start moves a process into it
		return fmt.Errorf("%s is not ended: %w", unit, err)
	}
	var failed error
	for range maxUndoRounds {
		pids, err := m.members(unit)
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

// members are the processes in a unit of the slice and below it; of one that is not there
// none.
func (m *move) members(unit string) ([]int, error) {
	var out []int
	top := m.host.Path("sys/fs/cgroup", unitname.Slice, unit)
	err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for field := range strings.FieldsSeq(string(text)) {
			pid, bad := strconv.Atoi(field)
			if err = errors.Join(err, bad); bad == nil && pid > 0 { // 0: of another PID namespace
				out = append(out, pid)
			}
		}
		return err
	})
	return out, err
}

// moveBack moves one process out of the scope: to where it was, if that unit has Delegate=,
// since systemd moves no process into another unit that is up. Otherwise it gets a scope of
// its own next to that unit, with the limits on memory, tasks and processors that it had.
func (m *move) moveBack(ctx context.Context, pid int, scope string) error {
	origins := m.origins(ctx, pid, scope)
	for _, cgroup := range origins {
		unit, below := split(cgroup)
		if unit == "" {
			continue
		}
		if err := m.pid1.processes.Attach(ctx, unit, below, uint32(pid)); err == nil {
			m.log.Warn("a process was moved back out of a lease that was not given", "pid", pid, "to", unit, "unit", scope)
			return nil
		}
	}
	if _, err := os.Stat(m.host.Path("proc", strconv.Itoa(pid))); errors.Is(err, os.ErrNotExist) {
		return nil // it has ended meanwhile
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
			if bounds, err := lease.ReadBounds(m.host.Path("sys/fs/cgroup"), cgroup); err == nil { // else its unit has ended
				s.Extra = limits(bounds)
			}
			break
		}
	}
	err := m.pid1.transients.StartScope(ctx, s)
	if err == nil {
		m.log.Warn("a process was moved out of a lease that was not given", "pid", pid, "to", s.Name, "slice", s.Slice, "unit", scope)
	}
	return err
}

// origins are the cgroups that a process may have been in before, the likeliest first: a
// process begins in that of its parent, or of its service.
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
		if cgroup, err := m.cgroup(parent); err == nil && !strings.Contains(cgroup+"/", "/"+scope+"/") {
			return append(out, cgroup)
		}
		up = parent
	}
	return out
}

// split is a cgroup's unit of the system's manager, and the path below it.
func split(cgroup string) (unit, below string) {
	units := systemd.UnitsOf(cgroup)
	if len(units) == 0 {
		return "", ""
	}
	unit = units[len(units)-1]
	_, below, _ = strings.Cut(cgroup, "/"+unit)
	return unit, below
}

// sliceOf is the innermost slice of the system's manager that a cgroup is below, "" if there
// is none, or it is that of leases.
func sliceOf(cgroup string) string {
	units := systemd.UnitsOf(cgroup)
	for i := len(units) - 1; i >= 0; i-- {
		if strings.HasSuffix(units[i], ".slice") && units[i] != unitname.Slice {
			return units[i]
		}
	}
	return ""
}
