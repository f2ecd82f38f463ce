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

// Usage looks who uses the GPUs, see [openfiles.Look].
func (n *Node) Usage(ctx context.Context) (gpu.Usage, error) {
	if n.module().State() == "" {
		return gpu.Usage{}, nil
	}
	u, err := openfiles.FindUsage(ctx, n.roots.Proc, n.deviceNodes, n.limits, n.addDriverUsage)
	u.Holders = slices.DeleteFunc(u.Holders, func(h gpu.Holder) bool { return slices.Contains(ExemptUnits(), h.Unit) })
	return u, err
}

// tally adds what the driver and its library tell to what was seen.
func (n *Node) addDriverUsage(s *openfiles.Scan, u *gpu.Usage) error {
	n.attributeListed(s)
	u.Count, u.Modules, u.Counted = n.module().UseCount()
	u.Accounted = s.Weight()
	return nil
}

// witness adds the processes that the library has listed at the last look, as far as
// they are there still.
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

// Tally is the module's use count.
func (n *Node) UsageFingerprint() string {
	count, modules, ok := n.module().UseCount()
	return fmt.Sprint(count, modules, ok)
}

// deviceNodes are the nodes through which the GPUs are opened. Each open file of one
// adds one to the driver's use count.
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

// named are the driver's own nodes, "nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap12".
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

// cards are the DRM devices of the functions that the driver is bound to.
func (n *Node) drmNodes() ([]string, error) {
	// The pattern is in order, and no other error is possible.
	found, _ := filepath.Glob(n.sys("bus/pci/drivers", driver, "*:*", "drm", "*"))
	var out []string
	for _, path := range found {
		if _, _, ok := gpu.DRMName(filepath.Base(path)); ok {
			out = append(out, "dri/"+filepath.Base(path))
		}
	}
	return out, nil
}

// nodes are those that nobody may have open while this GPU is changed: its own, and
// those of its instances. /dev/nvidiactl is every GPU's, and says nothing of this one.
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
