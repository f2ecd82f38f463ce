package amdgpu

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/attr"
	"dcm/internal/foreign"
	"dcm/internal/gpu"
)

// numbers lists the entries of a directory that are numbers.
func numbers(dir string) ([]int, error) {
	names, err := attr.Names(dir)
	var out []int
	for _, name := range names {
		if v, err := strconv.Atoi(name); err == nil {
			out = append(out, v)
		}
	}
	return out, err
}

func (n *Node) describeHolders(found map[int][]use) []gpu.Holder {
	out := make([]gpu.Holder, 0, len(found))
	for pid, uses := range found {
		var devices []string
		for _, u := range uses {
			devices = append(devices, u.device)
		}
		dir := filepath.Join(n.roots.Proc, strconv.Itoa(pid))
		slices.SortFunc(devices, compareNodes)
		out = append(out, gpu.Holder{PID: pid, Command: command(dir), Unit: gpu.UnitOf(n.roots.Proc, pid), Devices: slices.Compact(devices)})
	}
	slices.SortFunc(out, func(a, b gpu.Holder) int { return cmp.Compare(a.PID, b.PID) })
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
	comm, _ := attr.Bytes(filepath.Join(dir, "comm"))
	comm = bytes.TrimSuffix(comm, []byte("\n"))
	if len(comm) < 15 {
		return foreign.Text(string(comm))
	}
	line, _ := attr.Bytes(filepath.Join(dir, "cmdline"))
	first, _, _ := strings.Cut(string(line), "\x00")
	if base := filepath.Base(first); strings.HasPrefix(base, string(comm)) {
		return foreign.Text(base)
	}
	return foreign.Text(string(comm))
}
