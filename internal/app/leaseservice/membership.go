package leaseservice

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// Within returns the lease that a process is in, "" for none, and whether it is the only
// process there.
func (p *Host) Within(pid int) (unit string, alone bool) {
	cgroup, err := p.cgroup(pid)
	path, ours := strings.CutPrefix(cgroup, "/"+unitname.Slice+"/")
	unit, below, _ := strings.Cut(path, "/")
	if err != nil || !ours || !leased(unit) {
		return "", false
	}
	if below != "" {
		return unit, false
	}
	procs, err := os.ReadFile(p.host.Path("sys/fs/cgroup", cgroup, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(procs)) != strconv.Itoa(pid) {
		return unit, false
	}
	children, err := os.ReadDir(p.host.Path("sys/fs/cgroup", cgroup))
	return unit, err == nil && !slices.ContainsFunc(children, os.DirEntry.IsDir) // those may have processes
}

// Terms returns how long leases last, by what systemd knows.
func (p *Host) Terms(ctx context.Context, leases []string) (map[string]lease.Term, error) {
	out := make(map[string]lease.Term)
	if len(leases) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	terms, err := conn.Transients.Terms(ctx, leases)
	for unit, t := range terms {
		out[unit] = lease.Term(t)
	}
	return out, err
}

// Empty reports whether a unit of the slice has no process, or does not exist.
func (p *Host) Empty(unit string) bool {
	_, err := os.Stat(p.host.Path("sys/fs/cgroup", unitname.Slice, unit))
	return errors.Is(err, fs.ErrNotExist) || p.empty(unit)
}
