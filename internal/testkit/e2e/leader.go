package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Leader returns the PID, on the host, of the container's PID 1. A reboot changes it.
func (c *Container) Leader() (string, error) {
	leader := ""
	err := filepath.WalkDir(c.cgroup.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		text, err := os.ReadFile(path)
		for pid := range strings.FieldsSeq(string(text)) {
			if isLeader(pid) {
				leader = pid
				return fs.SkipAll
			}
		}
		return err
	})
	if err == nil && leader == "" {
		err = errors.New("the container has no PID 1")
	}
	return leader, err
}

// isLeader reports whether a process is PID 1 of a PID namespace below this one.
func isLeader(pid string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return false
	}
	_, line, _ := strings.Cut(string(text), "\nNSpid:")
	line, _, _ = strings.Cut(line, "\n")
	pids := strings.Fields(line)
	return len(pids) > 1 && pids[len(pids)-1] == "1"
}
