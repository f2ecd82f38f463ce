package leasesoak

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Report is what a holder can see of itself.
type Report struct {
	Cgroup string
	Opens  []string // device nodes
}

// Unit returns the name of its unit.
func (s Report) Unit() string { return filepath.Base(s.Cgroup) }

// Hold runs in a lease. It writes a report at the start and for each line of its input, and
// ends with its input.
func Hold(in io.Reader, out io.Writer) error {
	lines, say := bufio.NewScanner(in), json.NewEncoder(out)
	for {
		cgroup, err := cgroupOf("self")
		if err != nil {
			return err
		}
		opens, err := openable()
		if err == nil {
			err = say.Encode(Report{cgroup, opens})
		}
		if err != nil || !lines.Scan() {
			return err
		}
	}
}

func cgroupOf(pid string) (string, error) {
	text, err := os.ReadFile("/proc/" + pid + "/cgroup")
	_, path, _ := strings.Cut(strings.TrimSpace(string(text)), "0::")
	return path, err
}

// openable returns the GPU nodes that this process may open. The nodes have no driver: ENXIO
// means that the cgroups allow it.
func openable() ([]string, error) {
	var out []string
	for _, pattern := range []string{"/dev/kfd", "/dev/dri/card*", "/dev/dri/renderD*"} {
		nodes, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			switch {
			case errors.Is(err, unix.ENXIO):
				out = append(out, node)
			case err == nil:
				unix.Close(fd)
				return nil, fmt.Errorf("%s has a driver", node)
			case !errors.Is(err, unix.EPERM):
				return nil, fmt.Errorf("cannot open %s: %w", node, err)
			}
		}
	}
	return out, nil
}
