package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/linux/sysfs"
)

// deviceNodes returns /dev/kfd and the DRM nodes of the GPUs that amdgpu drives.
func (n *usageReader) deviceNodes() (*openfiles.Nodes, error) {
	nodes := openfiles.NewNodes(n.roots.Dev)
	// An open file of KFD's events outlives the /dev/kfd that created it
	// (kfd_smi_event_open).
	nodes.AddAnonymous("kfd", kfdDevice)
	if err := nodes.Add("kfd", n.roots.SysPath("class/kfd/kfd/dev"), weightKFD); err != nil {
		return nil, err
	}
	names, err := sysfs.Names(n.roots.SysPath("class/drm"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if _, _, ok := gpu.DRMName(name); !ok {
			continue
		}
		ours := func() (bool, error) { return n.drivesCard(name) }
		if err := nodes.AddConditional("dri/"+name, n.roots.SysPath("class/drm", name, "dev"), weightDRM, ours); err != nil {
			return nil, err
		}
	}
	nodes.AddRemoved(majorDRM, weightDRM, removedNodeName, isAmdgpuFile)
	return nodes, nil
}

const majorDRM = 226 // DRM_MAJOR in include/drm/drm_drv.h

// removedNodeName names a DRM node that no longer exists. Minors are cards up to 63 and
// render nodes from 128 on (drm_minor_alloc).
func removedNodeName(minor uint32) string {
	if minor < 64 {
		return fmt.Sprintf("/dev/dri/card%d (removed)", minor)
	}
	return gpu.RenderNode(int(minor)) + " (removed)"
}

// isAmdgpuFile reports whether an open DRM file may belong to amdgpu. Its fdinfo names the
// driver (Documentation/gpu/drm-usage-stats.rst). A file without that line counts.
func isAmdgpuFile(fdinfo string) bool {
	for line := range strings.Lines(fdinfo) {
		if name, ok := strings.CutPrefix(line, "drm-driver:"); ok {
			return strings.TrimSpace(name) == driver
		}
	}
	return true
}

// drivesCard reports whether a DRM device belongs to amdgpu. Its parent is a PCI function
// that amdgpu is bound to, or a platform device "amdgpu_xcp.N" or "amdgpu_xcp_N" of a
// secondary partition (amdgpu_xcp_drv.c).
func (n *usageReader) drivesCard(name string) (bool, error) {
	parent, err := sysfs.Link(n.roots.SysPath("class/drm", name, "device"))
	if err != nil || strings.HasPrefix(parent, driver+"_xcp") {
		return err == nil, err
	}
	bound, err := sysfs.Link(n.roots.SysPath("class/drm", name, "device/driver"))
	return bound == driver, err
}

// What an open file adds to the driver's use count. A DRM node adds 1 (drm_stub_open). KFD
// adds 2, since its character device belongs to amdgpu too (chrdev_open: cdev_get and
// fops_get).
const (
	weightDRM = 1
	weightKFD = 2
)
