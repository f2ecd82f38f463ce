package gpu

import (
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/linux/sysfs"
)

// UnitOf returns the system unit that a process belongs to, by the /proc given; ""
// if it belongs to none, or has ended.
func UnitOf(proc string, pid int) string {
	one, _ := sysfs.Optional(filepath.Join(proc, "1/cgroup"))
	own, _ := sysfs.Optional(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	return unitOf(own, cgroupRoot(one))
}

// unitOf returns the system unit that a process belongs to, from its
// /proc/PID/cgroup; "" if it belongs to none. root is the path of PID 1's cgroup
// above the units, see cgroupRoot.
//
// It follows sd_pid_get_unit(3): behind the slices, the first component is the
// unit. What a container's or a user's own manager has below does not count.
func unitOf(cgroup, root string) string {
	for _, path := range managerPaths(cgroup) {
		if below, ok := strings.CutPrefix(path, root); ok && (below == "" || below[0] == '/') {
			path = below
		}
		for component := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			name := strings.TrimPrefix(component, "_") // how systemd escapes a name that collides with a file of cgroupfs
			if validName(name, ".slice") {
				continue
			}
			if validUnit(name) {
				return name
			}
			break
		}
	}
	return ""
}

// cgroupRoot returns what comes before the units in every path, from
// /proc/1/cgroup: "" on a host, something where PID 1 is itself in a group.
func cgroupRoot(cgroup string) string {
	for _, path := range managerPaths(cgroup) {
		if root, ok := strings.CutSuffix(path, "/init.scope"); ok {
			return root
		}
	}
	return ""
}

// managerPaths returns the paths in the hierarchies in which systemd keeps its
// units: the unified one, then systemd's own of cgroup v1.
func managerPaths(cgroup string) []string {
	var unified, own []string
	for line := range strings.Lines(cgroup) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		path := strings.TrimSuffix(fields[2], " (deleted)")
		switch {
		case fields[0] == "0" && fields[1] == "":
			unified = append(unified, path)
		case fields[1] == "name=systemd":
			own = append(own, path)
		}
	}
	return append(unified, own...)
}

// unitTypes are the suffixes of the units that have processes.
func unitTypes() []string { return []string{".service", ".scope", ".socket", ".mount", ".swap"} }

func validUnit(name string) bool {
	for _, suffix := range unitTypes() {
		if validName(name, suffix) {
			return !strings.HasPrefix(name, "@") && !strings.HasSuffix(name, "@"+suffix)
		}
	}
	return false
}

// validName tells whether name is a unit's of that type (unit_name_is_valid in
// systemd's unit-name.c).
func validName(name, suffix string) bool {
	prefix, ok := strings.CutSuffix(name, suffix)
	if !ok || prefix == "" || len(name) > 255 {
		return false
	}
	return strings.Trim(name, unitCharacters) == ""
}

const unitCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:-_.\\@"
