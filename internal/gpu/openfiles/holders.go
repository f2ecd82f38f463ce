package openfiles

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Holders returns the processes that have a node open, by PID. It removes processes that have ended from
// the scan, since their files are closed, and their names and units are unknown.
func (s *Scan) Holders() []gpu.Holder {
	out := make([]gpu.Holder, 0, len(s.found))
	for pid, uses := range s.found {
		var devices []string
		for _, u := range uses {
			devices = append(devices, u.device)
		}
		sorting.By(devices, compareNodes)
		h := gpu.Holder{PID: pid, Command: command(s.dir(pid, "")), Unit: gpu.UnitOf(s.proc, pid), Devices: slices.Compact(devices)}
		if s.ended(pid) { // asked last: name and unit are then those of the process
			delete(s.found, pid)
			continue
		}
		out = append(out, h)
	}
	sorting.By(out, func(a, b gpu.Holder) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// compareNodes sorts /dev/kfd first and the others by name and number.
func compareNodes(a, b string) int {
	return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), len(a)-len(b), cmp.Compare(a, b))
}

// command returns the name of a process. The kernel truncates it to 15 bytes (comm in
// proc_pid_comm(5)). The full name is then taken from the arguments if they start with it.
// The process controls both.
func command(dir string) string {
	comm, _ := sysfs.Bytes(filepath.Join(dir, "comm"))
	comm = bytes.TrimSuffix(comm, []byte("\n"))
	if len(comm) < 15 {
		return sanitize.Text(string(comm))
	}
	line, _ := sysfs.Bytes(filepath.Join(dir, "cmdline"))
	first, _, _ := strings.Cut(string(line), "\x00")
	if base := filepath.Base(first); strings.HasPrefix(base, string(comm)) {
		return sanitize.Text(base)
	}
	return sanitize.Text(string(comm))
}

// Uninspected returns the processes that could not be inspected, by PID.
func (s *Scan) Uninspected() []gpu.Uninspected {
	var out []gpu.Uninspected
	for pid, reason := range s.skipped {
		dir := s.dir(pid, "")
		var st, files unix.Stat_t
		err := unix.Stat(dir, &st)
		_ = unix.Stat(s.dir(pid, "fd"), &files)
		u := gpu.Uninspected{PID: pid, Command: command(dir), UID: int(st.Uid), Files: int(files.Size), Reason: reason, TimedOut: reason != reasonDenied}
		if err != nil || s.ended(pid) {
			continue
		}
		out = append(out, u)
	}
	sorting.By(out, func(a, b gpu.Uninspected) int { return a.PID - b.PID })
	return out
}

// Weight returns what the open files add to the driver's use count. A file that several
// processes share counts once.
func (s *Scan) Weight() int {
	byDevice := make(map[string][]openFile)
	for _, uses := range s.found {
		for _, u := range uses {
			byDevice[u.device] = append(byDevice[u.device], u)
		}
	}
	sum := 0
	for _, uses := range byDevice {
		sum += sumWeights(uses, compareFiles)
	}
	return sum
}

// sumWeights adds the weight of each different file. It sorts first, since a user can open a
// device any number of times, and comparing each pair would take minutes.
func sumWeights(uses []openFile, compare func(a, b openFile) int) int {
	slices.SortFunc(uses, compare)
	sum := 0
	for i, u := range uses {
		if i == 0 || compare(uses[i-1], u) != 0 {
			sum += u.weight
		}
	}
	return sum
}
