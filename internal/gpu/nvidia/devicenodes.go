package nvidia

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/linux/sysfs"
)

// deviceNodes returns the nodes of the driver. Each open file of a node adds 1 to the use
// count.
func (h host) deviceNodes() (*openfiles.Nodes, error) {
	nodes := openfiles.NewNodes(h.Dev)
	names, err := h.driverNodes()
	if err != nil {
		return nil, err
	}
	cards, err := h.drmNodes()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(names, cards) {
		if err := nodes.Add(name, h.SysPath("class/drm", filepath.Base(name), "dev"), 1); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// driverNodes returns the names of the driver's own nodes: "nvidia0", "nvidiactl",
// "nvidia-caps/nvidia-cap12".
func (h host) driverNodes() ([]string, error) {
	names, err := sysfs.Names(h.Dev)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if name == "nvidia-caps" {
			below, err := sysfs.Names(filepath.Join(h.Dev, name))
			if err != nil {
				return nil, err
			}
			for _, b := range below {
				if number, ok := strings.CutPrefix(b, "nvidia-cap"); ok && isNumber(number) {
					out = append(out, name+"/"+b)
				}
			}
			continue
		}
		if rest, ok := strings.CutPrefix(name, "nvidia"); ok && (isNumber(rest) || slices.Contains([]string{"ctl", "-uvm", "-uvm-tools", "-modeset"}, rest)) {
			out = append(out, name)
		}
	}
	return out, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// drmNodes returns the names of the DRM nodes of the functions that the driver is bound to.
func (h host) drmNodes() ([]string, error) {
	// A constant pattern has no error.
	found, _ := filepath.Glob(h.SysPath("bus/pci/drivers", driver, "*:*", "drm", "*"))
	var out []string
	for _, path := range found {
		if _, _, ok := gpu.DRMName(filepath.Base(path)); ok {
			out = append(out, "dri/"+filepath.Base(path))
		}
	}
	return out, nil
}

// exclusiveNodes returns the nodes that no process may have open while this GPU is changed:
// its own and those of its instances. /dev/nvidiactl belongs to all GPUs.
func (h host) exclusiveNodes(f *gpu.Function, g nvml.GPU, minors map[string]int) []string {
	var out []string
	if g.Minor != nil {
		out = append(out, fmt.Sprintf("/dev/nvidia%d", *g.Minor))
		out = append(out, instanceNodes(*g.Minor, g.Instances, minors)...)
	}
	found, _ := filepath.Glob(h.AttributePath(f.Address, "drm/*"))
	for _, path := range found {
		if _, _, ok := gpu.DRMName(filepath.Base(path)); ok {
			out = append(out, "/dev/dri/"+filepath.Base(path))
		}
	}
	return out
}
