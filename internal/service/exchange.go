package service

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/unitname"
)

// Alone returns the lease that a process is in by itself.
func (p *premises) Alone(pid int) string {
	cgroup, err := p.cgroup(pid)
	unit, ours := strings.CutPrefix(cgroup, "/"+unitname.Slice+"/")
	if err != nil || !ours || !leased(unit) {
		return ""
	}
	procs, err := os.ReadFile(p.host.Path("sys/fs/cgroup", cgroup, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(procs)) != strconv.Itoa(pid) {
		return ""
	}
	below, err := os.ReadDir(p.host.Path("sys/fs/cgroup", cgroup))
	if err != nil || slices.ContainsFunc(below, os.DirEntry.IsDir) { // which may have processes
		return ""
	}
	return unit
}

// Empty tells whether nobody is in a unit of the slice, or it is gone.
func (p *premises) Empty(unit string) bool {
	_, err := os.Stat(p.host.Path("sys/fs/cgroup", unitname.Slice, unit))
	return errors.Is(err, fs.ErrNotExist) || p.empty(unit)
}
