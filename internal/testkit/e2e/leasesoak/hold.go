package leasesoak

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
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
		opens, err := leased()
		if err == nil && opens == nil {
			opens, err = openable()
		}
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

// held are the nodes that leased has opened. They stay open, so that the process uses the GPU.
var held = make(map[string]int)

// leased opens the nodes of the lease's partitions, if they have a driver. It returns nil if they have none.
func leased() ([]string, error) {
	fd, err := unix.Open(common, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil
	}
	if _, ok := held[common]; ok {
		unix.Close(fd)
	} else {
		held[common] = fd
	}
	list, err := runstate.ReadPartitions(runtime)
	if err != nil || list == nil {
		return nil, fmt.Errorf("partitions are not listed: %w", err)
	}
	var out []string
	for _, name := range strings.Fields(os.Getenv("DCM_PARTITIONS")) {
		i := slices.IndexFunc(list.Parts, func(p runstate.Part) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s is not listed", name)
		}
		node := list.Parts[i].Render
		if _, ok := held[node]; !ok {
			if held[node], err = unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
				return nil, fmt.Errorf("%s: cannot open %s: %w", name, node, err)
			}
		}
		out = append(out, node)
	}
	return out, nil
}

// openable returns the GPU nodes that this process may open. The nodes have no driver: ENXIO
// means that the cgroups allow it.
func openable() ([]string, error) {
	var out []string
	patterns, access := []string{"/dev/kfd", "/dev/dri/card*", "/dev/dri/renderD*"}, unix.O_RDWR
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		patterns, access = []string{"/dev/nvidia-caps/nvidia-cap*"}, unix.O_RDONLY
	}
	for _, pattern := range patterns {
		nodes, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			fd, err := unix.Open(node, access|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			switch {
			case access == unix.O_RDONLY && (isShared(node) || errors.Is(err, unix.ENOENT)): // another lease has ended
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
