package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cgroup contains all processes of one container. Each container has its own: systemd-nspawn
// creates a child cgroup "payload" in it.
type cgroup struct {
	dir  string
	held *os.File // locked until the process that created the cgroup exits
}

func unifiedCgroup() (string, error) {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("containers need a cgroup2 hierarchy at /sys/fs/cgroup")
}

func newCgroup(name string) (cgroup, error) {
	root, err := unifiedCgroup()
	if err != nil {
		return cgroup{}, err
	}
	done, err := making()
	if err != nil {
		return cgroup{}, fmt.Errorf("cannot make a cgroup: %w", err)
	}
	defer done()
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return cgroup{}, fmt.Errorf("cannot make a cgroup: %w", err)
	}
	held, ok, err := hold(dir)
	if err != nil || !ok {
		return cgroup{}, fmt.Errorf("cannot lock the cgroup %s: %w", dir, err)
	}
	return cgroup{dir, held}, nil
}

// processorTime returns the processor time of all processes in the cgroup so far, also of those that have ended:
// usage_usec of cpu.stat, which the kernel counts without the cpu controller too.
func (c cgroup) processorTime() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if used, ok := strings.CutPrefix(line, "usage_usec "); ok {
			µs, err := strconv.ParseInt(strings.TrimSpace(used), 10, 64)
			return time.Duration(µs) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s/cpu.stat has no usage_usec", c.dir)
}

// kill sends SIGKILL to every process in the cgroup. It does not wait for their exit.
func (c cgroup) kill() error {
	return os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0)
}

// remove removes the empty tree of cgroups.
func (c cgroup) remove() error {
	var dirs []string
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	if c.held != nil {
		err = errors.Join(err, c.held.Close())
	}
	return err
}
