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
	for _, name := range Leases(h) {
		unit := name.String()
		pid := first(h.Path("sys/fs/cgroup", unitname.Slice, unit))
		if pid == 0 {
			continue // it is ending
		}
		comm, _ := os.ReadFile(h.Path("proc", strconv.Itoa(pid), "comm")) // it may have ended
		out = append(out, gpu.Holder{
			PID: pid, Command: sanitize.Text(strings.TrimSuffix(string(comm), "\n")), Unit: unit,
			LeaseOwner: UserOrID(strconv.Itoa(int(name.UID))),
			Leased:     leasedNodes(h, unit),
		})
	}
	return out
}

// leasedNodes returns the nodes in the DeviceAllow= of a lease's unit, links resolved, nil if they
// are unknown. It reads the files that PID 1 writes for transient units and for
// systemctl set-property (systemd.unit(5), "Unit File Load Path").
func leasedNodes(h *Host, unit string) []string {
	files := []string{h.Path("run/systemd/transient", unit)}
	for _, dir := range []string{"run/systemd/transient", "run/systemd/system.control", "etc/systemd/system.control"} {
		edits, _ := filepath.Glob(h.Path(dir, unit+".d", "*.conf")) // fails only for a bad pattern
		files = append(files, edits...)
	}
	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		for line := range strings.Lines(string(text)) {
			entry, ok := strings.CutPrefix(strings.TrimSpace(line), "DeviceAllow=")
			node, _, _ := strings.Cut(entry, " ")
			switch {
			case !ok || entry == "":
			case !strings.HasPrefix(node, "/dev/"):
				return nil // a class of devices
			default:
				out = append(out, sanitize.Text(resolved(h, node)))
			}
		}
	}
	return out
}

// resolved returns the node that a link of dcm's leads to, or the path itself.
func resolved(h *Host, node string) string {
	target, err := filepath.EvalSymlinks(h.Path(node))
	if err != nil {
		return node
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(target, h.Root), "/")
}

// LeaseUnits returns the units of the leases, also those without a process.
func LeaseUnits(h *Host) []string {
	var out []string
	for _, name := range Leases(h) {
		out = append(out, name.String())
	}
	return out
}

// Leases returns the names of the leases of [LeaseUnits].
func Leases(h *Host) []unitname.Lease {
	entries, _ := os.ReadDir(h.Path("sys/fs/cgroup", unitname.Slice)) // the directory is missing until the first lease
	var out []unitname.Lease
	for _, e := range entries {
		if name, ok := unitname.ParseLease(e.Name()); ok {
			out = append(out, name)
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
