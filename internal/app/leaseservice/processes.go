package leaseservice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// processes reads which processes are in which units, from the files of cgroups. It implements
// [lease.Processes].
type processes struct{ host *host.Host }

func (p processes) Check(c lease.Caller) error { return c.Process.Check() }

func (p processes) cgroups() string { return p.host.Path("sys/fs/cgroup") }

// unitDir returns the cgroup directory of a unit in dcm.slice.
func (p processes) unitDir(unit string) string {
	return filepath.Join(p.cgroups(), unitname.Slice, unit)
}

// cgroup returns the cgroup of a process in the unified hierarchy.
func (p processes) cgroup(pid int) (string, error) {
	text, err := os.ReadFile(p.host.Path("proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimRight(path, "\n"), nil
		}
	}
	return "", errors.New("the host has no unified cgroup hierarchy")
}

// inside returns an error if a process is not in its scope. The kernel does not move a process that
// is about to exit, and neither it nor systemd reports an error: the scope would stay active and
// empty.
func (p processes) inside(pid int, unit string) error {
	now, err := p.cgroup(pid)
	if err == nil && filepath.Base(now) != unit {
		err = fmt.Errorf("process %d: not moved, since it is about to exit (found in %s)", pid, sanitize.Text(now))
	}
	return err
}

// Within returns the lease that a process is in, "" for none, and whether it is the only
// process there.
func (p processes) Within(pid int) (unit string, alone bool) {
	cgroup, err := p.cgroup(pid)
	path, ours := strings.CutPrefix(cgroup, "/"+unitname.Slice+"/")
	unit, below, _ := strings.Cut(path, "/")
	if err != nil || !ours || !isLease(unit) {
		return "", false
	}
	if below != "" {
		return unit, false
	}
	procs, err := os.ReadFile(filepath.Join(p.unitDir(unit), "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(procs)) != strconv.Itoa(pid) {
		return unit, false
	}
	children, err := os.ReadDir(p.unitDir(unit))
	return unit, err == nil && !slices.ContainsFunc(children, os.DirEntry.IsDir) // child cgroups may have processes
}

func isLease(unit string) bool {
	_, ok := unitname.ParseLease(unit)
	return ok
}

// Empty reports whether a unit in dcm.slice has no process, or does not exist.
func (p processes) Empty(unit string) bool {
	populated, _ := p.populated(unit)
	return !populated
}

// unpopulated reports whether a unit in dcm.slice has a cgroup without processes. A unit without
// cgroup is being started or stopped.
func (p processes) unpopulated(unit string) bool {
	populated, exists := p.populated(unit)
	return exists && !populated
}

// populated reports whether a unit in dcm.slice has processes, and whether its cgroup exists. A cgroup
// that cannot be read counts as populated. If it is removed during the read, kernfs returns ENODEV.
func (p processes) populated(unit string) (yes, exists bool) {
	text, err := os.ReadFile(filepath.Join(p.unitDir(unit), "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return false, false
	}
	return err != nil || !slices.Contains(strings.Split(string(text), "\n"), "populated 0"), true
}

// emptyScopes returns the scopes without processes that dcm has created.
func (p processes) emptyScopes() []string {
	entries, _ := os.ReadDir(p.unitDir("")) // without the slice there are none
	var out []string
	for _, e := range entries {
		if lease.Made(e.Name()) && p.unpopulated(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// members returns the processes in a unit in dcm.slice and in its child cgroups, none if the unit
// does not exist.
func (p processes) members(unit string) ([]int, error) {
	var out []int
	err := filepath.WalkDir(p.unitDir(unit), func(path string, entry os.DirEntry, err error) error {
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
			if err = errors.Join(err, bad); bad == nil && pid > 0 { // 0: a process of another PID namespace
				out = append(out, pid)
			}
		}
		return err
	})
	return out, err
}

// groups returns the groups of the first process of a lease.
func (p processes) groups(unit string) []uint32 {
	procs, err := os.ReadFile(filepath.Join(p.unitDir(unit), "cgroup.procs"))
	pid, _, _ := strings.Cut(string(procs), "\n")
	if err != nil || pid == "" {
		return nil
	}
	status, err := os.ReadFile(p.host.Path("proc", pid, "status"))
	if err != nil {
		return nil
	}
	var out []uint32
	for line := range strings.Lines(string(status)) {
		key, list, _ := strings.Cut(line, ":")
		if key != "Gid" && key != "Groups" {
			continue
		}
		for _, id := range strings.Fields(list) {
			if gid, err := strconv.ParseUint(id, 10, 32); err == nil {
				out = append(out, uint32(gid))
			}
		}
	}
	return out
}
