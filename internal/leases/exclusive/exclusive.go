// Package exclusive computes the table of the guard: the device nodes of exclusive partitions, and the
// cgroups whose processes may open them. For a reservation that is the slice of its unit, for a lease
// its scope. dcm-guard writes this table into the kernel. The daemon and the status compare it with the
// table that dcm-guard has read back.
//
// The package does not access the kernel's table, and changes nothing.
package exclusive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// Units reads units from PID 1. [systemd.Cgroups] implements it.
type Units interface {
	// ControlGroup returns the path of a unit's cgroup, "" if it has none.
	ControlGroup(ctx context.Context, unit string) (string, error)
}

// Host is the tree with the nodes, the cgroups and the unit files.
type Host struct {
	Root      string   // "/"
	Observers []string // services that may open every partition
}

// Wanted returns the table for these partitions and the units below dcm.slice. If no partition
// is exclusive, the table is empty.
func (h Host) Wanted(ctx context.Context, u Units, p runstate.Partitions, inSlice []systemd.Tenant) (runstate.GuardTable, error) {
	units := make(map[string][]string)
	for _, t := range inSlice {
		units[t.Unit] = t.Allow
	}
	out := runstate.GuardTable{Table: []runstate.Guarded{}, All: []runstate.Cgroup{}}
	cgroups := make(map[string][]runstate.Cgroup) // by holder
	for _, e := range lease.ExclusiveParts(p, units) {
		of, known := cgroups[e.Holder]
		if !known {
			paths, err := h.holderCgroups(ctx, u, p, e, inSlice)
			if err == nil {
				of, err = h.withIDs(paths)
			}
			if err != nil {
				return out, err
			}
			cgroups[e.Holder] = of
		}
		for _, node := range e.Nodes() {
			device, err := h.device(node)
			if err != nil {
				return out, err
			}
			if device != "" {
				out.Table = append(out.Table, runstate.Guarded{Node: node, Device: device, Partition: e.Name, Holder: e.Holder, Cgroups: of})
			}
		}
	}
	if len(out.Table) == 0 {
		return out, nil
	}
	slices.SortFunc(out.Table, func(a, b runstate.Guarded) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Holder, b.Holder))
	})
	paths, err := h.observerCgroups(ctx, u)
	if err == nil {
		out.All, err = h.withIDs(paths)
	}
	return out, err
}

// Any reports whether a reservation with partitions or a lease is exclusive. leased contains the
// unit names of the leases.
func Any(reserved []runstate.Reservation, leased []string) bool {
	return slices.ContainsFunc(reserved, func(r runstate.Reservation) bool { return r.Exclusive && len(r.Partitions) > 0 }) ||
		slices.ContainsFunc(leased, Lease)
}

// Lease reports whether a unit's name is that of an exclusive lease.
func Lease(unit string) bool {
	n, ok := unitname.ParseLease(unit)
	return ok && n.Kind == unitname.ExclusiveLease
}

// holderCgroups returns the paths of the cgroups of a partition's holder. A unit that still runs in
// another slice below dcm.slice, because its Slice= has changed, keeps access until it is restarted.
func (h Host) holderCgroups(ctx context.Context, u Units, p runstate.Partitions, e lease.ExclusivePart, inSlice []systemd.Tenant) ([]string, error) {
	if e.Reservation == nil {
		path, err := u.ControlGroup(ctx, e.Holder)
		return []string{path}, err
	}
	r := e.Reservation
	slice := unitname.HolderSlice(r.Name)
	if r.Unit != "" {
		own, err := systemd.OwnSlice(h.Root, r.Unit, false)
		if err != nil {
			return nil, err
		}
		slice = systemd.ReservationSlice(r.Name, own)
	}
	paths := []string{SlicePath(slice)}
	for _, t := range inSlice {
		shares := lease.SharedBy(p, t.Unit)
		if t.Unit != r.Unit && (shares == nil || shares.Name != r.Name) {
			continue
		}
		path, err := u.ControlGroup(ctx, t.Unit)
		if err != nil {
			return nil, err
		}
		if Below(path, SlicePath(unitname.Slice)) && !Below(path, paths[0]) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// observerCgroups returns the paths of the cgroups whose processes may open every device of the table.
func (h Host) observerCgroups(ctx context.Context, u Units) ([]string, error) {
	paths := []string{SlicePath(unitname.ObserverSlice)}
	for _, unit := range h.Observers {
		own, err := systemd.OwnSlice(h.Root, unit, false)
		if err != nil {
			return nil, err
		}
		if own.Below(unitname.Slice) {
			paths = append(paths, SlicePath(own.Value))
		}
		if strings.Contains(unit, "@.") {
			continue
		}
		path, err := u.ControlGroup(ctx, unit)
		if err != nil {
			return nil, err
		}
		if Below(path, SlicePath(unitname.Slice)) && !slices.ContainsFunc(paths, func(dir string) bool { return Below(path, dir) }) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// withIDs returns the cgroups with their IDs. It leaves out cgroups that do not exist.
func (h Host) withIDs(paths []string) ([]runstate.Cgroup, error) {
	out := []runstate.Cgroup{}
	for _, path := range paths {
		if path == "" {
			continue
		}
		dir := filepath.Join(h.Root, "sys/fs/cgroup", path)
		var st unix.Stat_t
		switch err := unix.Stat(dir, &st); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, &os.PathError{Op: "stat", Path: sanitize.Text(dir), Err: err}
		default:
			out = append(out, runstate.Cgroup{Path: sanitize.Text(path), Number: st.Ino}) // cgroup_id in linux/cgroup.h
		}
	}
	return out, nil
}

// device returns the device number of a node, such as "226:129", or "" if there is no such
// character device.
func (h Host) device(node string) (string, error) {
	path := filepath.Join(h.Root, node)
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", &os.PathError{Op: "stat", Path: sanitize.Text(path), Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFCHR:
		return "", nil
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), nil
}

// SlicePath returns the path of a slice's cgroup: each '-' in the name is a level.
func SlicePath(slice string) string {
	stem, path := strings.TrimSuffix(slice, ".slice"), ""
	for i := range len(stem) {
		if stem[i] == '-' {
			path += "/" + stem[:i] + ".slice"
		}
	}
	return path + "/" + slice
}

// Below reports whether a cgroup's path is dir or below it.
func Below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// Same reports whether two tables are equal.
func Same(a, b runstate.GuardTable) bool {
	return slices.Equal(a.All, b.All) && slices.EqualFunc(a.Table, b.Table, func(a, b runstate.Guarded) bool {
		return a.Node == b.Node && a.Device == b.Device && a.Partition == b.Partition && a.Holder == b.Holder && slices.Equal(a.Cgroups, b.Cgroups)
	})
}

// Intruders names the processes that have a device of the table open and are not below the
// cgroups that may open it: "grab[1507] has 0000:05:00.0-1 open". cgroup returns the path of
// a process's cgroup.
func Intruders(t runstate.GuardTable, holders []runstate.Holder, cgroup func(pid int) (string, error)) []string {
	var out []string
	for _, h := range holders {
		var path *string
		for _, g := range t.Table {
			if !slices.Contains(h.Devices, g.Node) {
				continue
			}
			if path == nil {
				now, err := cgroup(h.PID)
				if err != nil {
					break // the process has ended
				}
				path = &now
			}
			if text := intruder(h, g.Partition); !mayOpen(*path, g, t.All) && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

func mayOpen(path string, g runstate.Guarded, all []runstate.Cgroup) bool {
	return slices.ContainsFunc(slices.Concat(g.Cgroups, all), func(c runstate.Cgroup) bool { return Below(path, c.Path) })
}

func intruder(h runstate.Holder, partition string) string {
	of := ""
	if h.Unit != "" {
		of = " of " + h.Unit
	}
	return fmt.Sprintf("%s[%d]%s has %s open", h.Command, h.PID, of, partition)
}
