package leaseservice

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/sanitize"
)

// OtherDevices returns the character devices of the host that match patterns of the configuration, with links resolved. refused
// has a message for each that it leaves out, such as a link to a GPU's node.
func OtherDevices(h *host.Host, patterns []string) (nodes, refused []string) {
	if len(patterns) == 0 {
		return nil, nil
	}
	return otherDevices{h.Path(), deviceNumber, gpuMajors(h)}.find(patterns)
}

// otherDevices finds device nodes that belong to no GPU.
type otherDevices struct {
	root   string
	number func(path string) (number uint64, character bool)
	gpus   []uint32 // major numbers of the drivers of GPUs: they identify a node under every name
}

func (o otherDevices) find(patterns []string) (nodes, refused []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(o.root, pattern)) // fails only for a bad pattern
		for _, path := range found {
			node, why := o.check(path)
			switch {
			case why != "":
				refused = append(refused, fmt.Sprintf("%s: cannot be opened by devices = in the configuration: %s", o.name(path), why))
			case !slices.Contains(nodes, node):
				nodes = append(nodes, node)
			}
		}
	}
	if n := len(nodes); n > config.MaxOtherDevices {
		nodes = nodes[:config.MaxOtherDevices]
		refused = append(refused, fmt.Sprintf("devices in the configuration: too many nodes match (found %d, want at most %d)", n, config.MaxOtherDevices))
	}
	return nodes, refused
}

// check returns the node that a path leads to, or why leases cannot open it.
func (o otherDevices) check(path string) (node, why string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", sanitize.Error(err).Error()
	}
	node = o.name(real)
	number, character := o.number(real)
	switch {
	case !character:
		return "", "it is no character device"
	case slices.Contains(o.gpus, unix.Major(number)):
		return "", fmt.Sprintf("%s belongs to a GPU (major number %d)", node, unix.Major(number))
	case config.UnleasableDevice(node) || !strings.HasPrefix(node, "/dev/") || sanitize.Text(real) != real || strings.ContainsAny(real, " %"):
		return "", "it leads to " + node
	}
	return node, ""
}

// name returns a path below the root as it is on the host.
func (o otherDevices) name(path string) string {
	return sanitize.Text("/" + strings.TrimLeft(strings.TrimPrefix(path, o.root), "/"))
}

// deviceNumber returns the number of a device node, and whether it is a character device.
func deviceNumber(path string) (number uint64, character bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0, false
	}
	return st.Rdev, st.Mode&unix.S_IFMT == unix.S_IFCHR
}

// gpuMajors returns the major numbers of the drivers of GPUs: of those that are loaded, and of the nodes that exist.
func gpuMajors(h *host.Host) []uint32 {
	out := []uint32{226, 195} // DRM and NVIDIA, see devices.txt of the kernel
	text, _ := os.ReadFile(h.Path("proc/devices"))
	for line := range strings.Lines(string(text)) {
		var major uint32
		var driver string
		if n, _ := fmt.Sscan(line, &major, &driver); n == 2 && (driver == "drm" || driver == "kfd" || strings.HasPrefix(driver, "nvidia")) {
			out = append(out, major)
		}
	}
	for _, pattern := range []string{"dev/kfd", "dev/dri/*", "dev/nvidia*", "dev/nvidia-caps/*"} {
		found, _ := filepath.Glob(h.Path(pattern)) // the pattern is good
		for _, path := range found {
			if number, character := deviceNumber(path); character {
				out = append(out, unix.Major(number))
			}
		}
	}
	return out
}
