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

// deviceNodes returns the nodes through which the GPUs of the amdgpu driver are
// opened, with their names: the KFD's, and those of each GPU's partitions. Other
// cards' do not count.
func (n *Node) deviceNodes() (*openfiles.Nodes, error) {
	nodes := openfiles.NewNodes(n.roots.Dev)
	// KFD's events outlive the /dev/kfd that they were asked for through
	// (kfd_smi_event_open).
	nodes.AddAnonymous("kfd", kfd)
	if err := nodes.Add("kfd", n.sys("class/kfd/kfd/dev"), weightKFD); err != nil {
		return nil, err
	}
	names, err := sysfs.Names(n.sys("class/drm"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if _, _, ok := gpu.DRMName(name); !ok {
			continue
		}
		ours := func() (bool, error) { return n.drivesCard(name) }
		if err := nodes.AddConditional("dri/"+name, n.sys("class/drm", name, "dev"), weightDRM, ours); err != nil {
			return nil, err
		}
	}
	nodes.AddRemoved(majorDRM, weightDRM, removedNodeName, isAmdgpuFile)
	return nodes, nil
}

const majorDRM = 226 // DRM_MAJOR in include/drm/drm_drv.h

// removedNode names a DRM node that no longer exists, by the numbering of
// drm_minor_alloc: 64 cards, and render nodes from 128 on.
func removedNodeName(minor uint32) string {
	if minor < 64 {
		return fmt.Sprintf("/dev/dri/card%d (removed)", minor)
	}
	return gpu.RenderNode(int(minor)) + " (removed)"
}

// drmOfAMD reports whether an open DRM file may be amdgpu's. Its fdinfo names the driver
// (Documentation/gpu/drm-usage-stats.rst); a file without that line counts.
func isAmdgpuFile(fdinfo string) bool {
	for line := range strings.Lines(fdinfo) {
		if name, ok := strings.CutPrefix(line, "drm-driver:"); ok {
			return strings.TrimSpace(name) == driver
		}
	}
	return true
}

// drivesCard tells whether a DRM device is one of amdgpu's: its parent is a PCI
// function that the driver is bound to, or the platform device of a further
// partition, which is "amdgpu_xcp.N" or "amdgpu_xcp_N" (amdgpu_xcp_drv.c).
func (n *Node) drivesCard(name string) (bool, error) {
	parent, err := sysfs.Link(n.sys("class/drm", name, "device"))
	if err != nil || strings.HasPrefix(parent, driver+"_xcp") {
		return err == nil, err
	}
	bound, err := sysfs.Link(n.sys("class/drm", name, "device/driver"))
	return bound == driver, err
}

// What an open device adds to the driver's use count: a DRM device one
// (drm_stub_open), KFD's two, since the character device is amdgpu's own too
// (chrdev_open: cdev_get and fops_get).
const (
	weightDRM = 1
	weightKFD = 2
)
