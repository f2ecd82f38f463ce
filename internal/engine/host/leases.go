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
		pid, command := member(h, h.Path("sys/fs/cgroup", unitname.Slice, unit))
		if pid == 0 {
			continue // it is ending
		}
		out = append(out, gpu.Holder{
			PID: pid, Command: command, Unit: unit,
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

// member returns a process in a cgroup or below it, with its name; 0 if there is none. If the listed
// processes ended before their names were read, it lists them again, since others may have started.
func member(h *Host, cgroup string) (pid int, command string) {
	const rounds = 3
	for range rounds {
		if pid, command = listed(h, cgroup); pid == 0 || command != "" {
			break
		}
	}
	return pid, command
}

// listed returns the first process of a cgroup whose name can be read. If there is none, it returns one
// without its name, or 0.
func listed(h *Host, cgroup string) (pid int, command string) {
	_ = filepath.WalkDir(cgroup, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil // it was removed meanwhile
		}
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			n, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || n <= 0 {
				continue
			}
			comm, _ := os.ReadFile(h.Path("proc", strconv.Itoa(n), "comm")) // it may have ended
			if pid, command = n, sanitize.Text(strings.TrimSuffix(string(comm), "\n")); command != "" {
				return fs.SkipAll
			}
		}
		return nil
	})
	return pid, command
}
