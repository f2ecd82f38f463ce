package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// leases are those that there are, by the cgroups of their units: a process of each.
// Nobody has to be asked, so that the oneshot sees them too.
func LeaseHolders(h *Host) []gpu.Holder {
	var out []gpu.Holder
	for _, unit := range LeaseUnits(h) {
		pid := first(h.Path("sys/fs/cgroup", unitname.Slice, unit))
		if pid == 0 {
			continue // it is ending
		}
		name, _ := unitname.ParseLease(unit)
		comm, _ := os.ReadFile(h.Path("proc", strconv.Itoa(pid), "comm")) // it may have ended
		out = append(out, gpu.Holder{
			PID: pid, Command: sanitize.Text(strings.TrimSuffix(string(comm), "\n")), Unit: unit,
			LeaseOwner: UserOrID(strconv.Itoa(int(name.UID))),
		})
	}
	return out
}

// LeaseUnits are the leases' cgroups, whether anybody is in them or not.
func LeaseUnits(h *Host) []string {
	entries, _ := os.ReadDir(h.Path("sys/fs/cgroup", unitname.Slice)) // not there: nobody has ever had one
	var out []string
	for _, e := range entries {
		if name, ok := unitname.ParseLease(e.Name()); ok {
			out = append(out, name.String())
		}
	}
	return out
}

// first is the first process of a cgroup or of one below it, 0 if there is none.
func first(cgroup string) int {
	pid := 0
	_ = filepath.WalkDir(cgroup, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil // a part of it is gone
		}
		text, _ := os.ReadFile(path)
		line, _, _ := strings.Cut(string(text), "\n")
		if n, err := strconv.Atoi(line); err == nil && n > 0 {
			pid = n
			return fs.SkipAll
		}
		return nil
	})
	return pid
}
