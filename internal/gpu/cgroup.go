package gpu

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/linux/sysfs"
	"dcm/internal/linux/unitname"
)

// UnitOf returns the system unit of a process. It returns "" if the process has no unit or
// has ended. proc is the mount point of procfs.
func UnitOf(proc string, pid int) string {
	one, _ := sysfs.Optional(filepath.Join(proc, "1/cgroup"))
	own, _ := sysfs.Optional(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	return unitOf(own, cgroupRoot(one))
}

// unitOf returns the system unit of a process from its /proc/PID/cgroup; "" if it has none.
// root is the prefix from [cgroupRoot].
//
// As in sd_pid_get_unit(3), the unit is the first component after the slices. Units of a
// container's manager or of a user manager do not count.
func unitOf(cgroup, root string) string {
	for _, path := range managerPaths(cgroup) {
		if below, ok := strings.CutPrefix(path, root); ok && (below == "" || below[0] == '/') {
			path = below
		}
		for component := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			name := strings.TrimPrefix(component, "_") // systemd's escape for a name that is a file name of cgroupfs
			if unitname.Valid(name) && strings.HasSuffix(name, ".slice") {
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

// cgroupRoot returns the prefix of every path from /proc/1/cgroup: "" on a host, a path if
// PID 1 runs in a cgroup itself.
func cgroupRoot(cgroup string) string {
	for _, path := range managerPaths(cgroup) {
		if root, ok := strings.CutSuffix(path, "/init.scope"); ok {
			return root
		}
	}
	return ""
}

// managerPaths returns the paths in the hierarchies that systemd manages: the unified one
// first, then name=systemd of cgroup v1.
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

// unitTypes returns the suffixes of units that can have processes.
func unitTypes() []string { return []string{".service", ".scope", ".socket", ".mount", ".swap"} }

// validUnit reports whether name is that of a unit, not a template, of these types.
func validUnit(name string) bool {
	suffix := filepath.Ext(name)
	return unitname.Valid(name) && slices.Contains(unitTypes(), suffix) && !strings.HasSuffix(name, "@"+suffix)
}
