package nvidia

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/linux/sysfs"
)

// Usage returns the processes that use the GPUs, see [openfiles.FindUsage].
func (n *Node) Usage(ctx context.Context) (gpu.Usage, error) {
	if n.module().State() == "" {
		return gpu.Usage{}, nil
	}
	u, err := openfiles.FindUsage(ctx, n.roots.Proc, n.deviceNodes, n.limits, n.addDriverUsage)
	u.Holders = slices.DeleteFunc(u.Holders, func(h gpu.Holder) bool { return slices.Contains(ExemptUnits(), h.Unit) })
	return u, err
}

// addDriverUsage adds what the driver and its library report.
func (n *Node) addDriverUsage(s *openfiles.Scan, u *gpu.Usage) error {
	n.attributeListed(s)
	u.Count, u.Modules, u.Counted = n.module().UseCount()
	u.Accounted = s.Weight()
	return nil
}

// attributeListed adds the processes that the library listed in the last reply and that
// still exist.
func (n *Node) attributeListed(s *openfiles.Scan) {
	last := n.lastReply.Load()
	if last == nil {
		return
	}
	for _, g := range last.GPUs {
		for _, p := range g.Processes {
			if g.Minor != nil && p.PID != os.Getpid() && s.Seen(p.PID) {
				s.Attribute(p.PID, fmt.Sprintf("/dev/nvidia%d", *g.Minor))
			}
		}
	}
}

// UsageFingerprint returns the use count of the module.
func (n *Node) UsageFingerprint() string {
	count, modules, ok := n.module().UseCount()
	return fmt.Sprint(count, modules, ok)
}

// deviceNodes returns the nodes of the driver. Each open file of a node adds 1 to the use
// count.
func (n *Node) deviceNodes() (*openfiles.Nodes, error) {
	nodes := openfiles.NewNodes(n.roots.Dev)
	names, err := n.driverNodes()
	if err != nil {
		return nil, err
	}
	cards, err := n.drmNodes()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(names, cards) {
		if err := nodes.Add(name, n.sys("class/drm", filepath.Base(name), "dev"), 1); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// driverNodes returns the names of the driver's own nodes: "nvidia0", "nvidiactl",
// "nvidia-caps/nvidia-cap12".
func (n *Node) driverNodes() ([]string, error) {
	names, err := sysfs.Names(n.roots.Dev)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if name == "nvidia-caps" {
			below, err := sysfs.Names(filepath.Join(n.roots.Dev, name))
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
func (n *Node) drmNodes() ([]string, error) {
	// A constant pattern has no error.
	found, _ := filepath.Glob(n.sys("bus/pci/drivers", driver, "*:*", "drm", "*"))
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
func (n *Node) exclusiveNodes(f *gpu.Function, g nvml.GPU, minors map[string]int) []string {
	var out []string
	if g.Minor != nil {
		out = append(out, fmt.Sprintf("/dev/nvidia%d", *g.Minor))
		out = append(out, n.instanceNodes(g, minors)...)
	}
	found, _ := filepath.Glob(gpu.AttributePath(n.roots.Sys, f.Address, "drm/*"))
	for _, path := range found {
		if _, _, ok := gpu.DRMName(filepath.Base(path)); ok {
			out = append(out, "/dev/dri/"+filepath.Base(path))
		}
	}
	return out
}
