package service

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

	"dcm/internal/caller"
	"dcm/internal/systemd"
	"dcm/internal/unitname"
)

// units is what PID 1 does to undo a move.
type units interface {
	Stop(ctx context.Context, unit string) error
	Attach(ctx context.Context, unit, below string, pid uint32) error
	ServiceOf(ctx context.Context, pid uint32) (string, error)
	StartScope(ctx context.Context, s systemd.Scope) error
}

// rounds is how often a scope is looked at until it is empty: what is in it may fork.
const rounds = 20

// Undo empties a scope and then ends it. A process that is in it may not be the caller: a
// systemd before version 254 goes by the number alone, which may have become another one's.
// So none is killed, whosesoever it is.
func (m *move) Undo(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	var failed error
	for range rounds {
		pids, err := m.members(unit)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return m.units.Stop(ctx, unit)
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

// moveBack moves one process out of the scope.
func (m *move) moveBack(ctx context.Context, pid int, scope string) error {
	for _, cgroup := range m.origins(ctx, pid, scope) {
		unit, below := split(cgroup)
		if unit == "" {
			continue
		}
		if err := m.units.Attach(ctx, unit, below, uint32(pid)); err == nil {
			m.log.Warn("a process was moved back out of a lease that was not given", "pid", pid, "to", unit, "unit", scope)
			return nil
		}
	}
	if _, err := os.Stat(m.host.Path("proc", strconv.Itoa(pid))); errors.Is(err, os.ErrNotExist) {
		return nil // it has ended meanwhile
	}
	// Where it came from is gone, or not known: a scope of its own, which limits nothing.
	var id [4]byte
	rand.Read(id[:]) // never fails
	name := fmt.Sprintf("moved-%d-%s.scope", pid, hex.EncodeToString(id[:]))
	err := m.units.StartScope(ctx, systemd.Scope{Name: name, Description: "Process that left " + scope, Slice: m.sliceFor(pid), PID: uint32(pid), Open: true})
	if err == nil {
		m.log.Warn("a process was moved out of a lease that was not given", "pid", pid, "to", name, "unit", scope)
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
			if service, err := m.units.ServiceOf(ctx, uint32(up)); err == nil && service != "" {
				out = append(out, "/"+service)
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

// sliceFor is where a process goes whose origin is gone: one of the caller's stays with what
// limits the caller.
func (m *move) sliceFor(pid int) string {
	_, uid, err := caller.Parent(m.host.Path("proc"), pid)
	if err == nil && uid == m.caller.Process.UID {
		units := systemd.UnitsOf(m.from)
		for i := len(units) - 1; i >= 0; i-- {
			if strings.HasSuffix(units[i], ".slice") && units[i] != unitname.Slice {
				return units[i]
			}
		}
	}
	return "system.slice"
}
