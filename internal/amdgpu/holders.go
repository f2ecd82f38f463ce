package amdgpu

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/foreign"
)

// Holder is a process that has a GPU's device open.
type Holder struct {
	PID     int
	Command string
	Unit    string   // the system unit it belongs to; "" if it belongs to none
	Devices []string // "/dev/kfd", "/dev/dri/renderD128"
}

// Holders returns the processes, other than this one, that have a GPU of the
// amdgpu driver open, by pid: those whose open files and mappings tell so, in
// whatever mount namespace, and those that the KFD lists.
//
// Where some processes could not be looked at, it returns the others with a
// [PartialError], which is [ErrPartial].
func (n *Node) Holders(ctx context.Context) ([]Holder, error) {
	u, err := n.Usage(ctx)
	if err == nil && len(u.Unlooked) > 0 {
		err = &PartialError{u.Unlooked}
	}
	return u.Holders, err
}

// numbers lists the entries of a directory that are numbers.
func numbers(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if v, err := strconv.Atoi(name); err == nil {
			out = append(out, v)
		}
	}
	return out, err
}

func (n *Node) describeHolders(found map[int][]use) []Holder {
	one, _ := readOptional(filepath.Join(n.roots.Proc, "1/cgroup"))
	root := cgroupRoot(one)
	out := make([]Holder, 0, len(found))
	for pid, uses := range found {
		var devices []string
		for _, u := range uses {
			devices = append(devices, u.device)
		}
		dir := filepath.Join(n.roots.Proc, strconv.Itoa(pid))
		cgroup, _ := readOptional(filepath.Join(dir, "cgroup"))
		slices.SortFunc(devices, compareNodes)
		out = append(out, Holder{pid, command(dir), unitOf(cgroup, root), slices.Compact(devices)})
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// compareNodes puts /dev/kfd first and the others by name and number.
func compareNodes(a, b string) int {
	return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), len(a)-len(b), cmp.Compare(a, b))
}

// command is a process's name. The kernel cuts it off at 15 bytes (comm in
// proc_pid_comm(5)); then the whole one is taken from its arguments, if it is
// there. Whoever started the process chose both.
func command(dir string) string {
	comm, _ := readBytes(filepath.Join(dir, "comm"))
	comm = bytes.TrimSuffix(comm, []byte("\n"))
	if len(comm) < 15 {
		return foreign.Text(string(comm))
	}
	line, _ := readBytes(filepath.Join(dir, "cmdline"))
	first, _, _ := strings.Cut(string(line), "\x00")
	if base := filepath.Base(first); strings.HasPrefix(base, string(comm)) {
		return foreign.Text(base)
	}
	return foreign.Text(string(comm))
}
