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

// LeaseHolders returns one process of each lease. It reads cgroups only, so that the oneshot can
// call it without the daemon.
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

// LeaseUnits returns the units of the leases, also those without a process.
func LeaseUnits(h *Host) []string {
	entries, _ := os.ReadDir(h.Path("sys/fs/cgroup", unitname.Slice)) // the directory is missing until the first lease
	var out []string
	for _, e := range entries {
		if name, ok := unitname.ParseLease(e.Name()); ok {
			out = append(out, name.String())
		}
	}
	return out
}

// first returns the first process in a cgroup or below it, 0 if there is none.
func first(cgroup string) int {
	pid := 0
	_ = filepath.WalkDir(cgroup, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil // it was removed meanwhile
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
