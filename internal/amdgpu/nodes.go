package amdgpu

import (
	"errors"
	"io/fs"
	"strings"

	"dcm/internal/attr"
	"dcm/internal/gpu"
	"dcm/internal/opened"
)

// deviceNodes returns the nodes through which the GPUs of the amdgpu driver are
// opened, with their names: the KFD's, and those of each GPU's partitions. Other
// cards' do not count.
func (n *Node) deviceNodes() (*opened.Nodes, error) {
	nodes := opened.NewNodes(n.roots.Dev)
	// KFD's events outlive the /dev/kfd that they were asked for through
	// (kfd_smi_event_open).
	nodes.Anonymous("kfd", kfd)
	if err := nodes.Add("kfd", n.sys("class/kfd/kfd/dev"), weightKFD); err != nil {
		return nil, err
	}
	names, err := attr.Names(n.sys("class/drm"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if _, _, ok := gpu.DRMName(name); !ok {
			continue
		}
		ours := func() (bool, error) { return n.drivesCard(name) }
		if err := nodes.AddIf("dri/"+name, n.sys("class/drm", name, "dev"), weightDRM, ours); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// drivesCard tells whether a DRM device is one of amdgpu's: its parent is a PCI
// function that the driver is bound to, or the platform device of a further
// partition, which is "amdgpu_xcp.N" or "amdgpu_xcp_N" (amdgpu_xcp_drv.c).
func (n *Node) drivesCard(name string) (bool, error) {
	parent, err := attr.Link(n.sys("class/drm", name, "device"))
	if err != nil || strings.HasPrefix(parent, driver+"_xcp") {
		return err == nil, err
	}
	bound, err := attr.Link(n.sys("class/drm", name, "device/driver"))
	return bound == driver, err
}

// What an open device adds to the driver's use count: a DRM device one
// (drm_stub_open), KFD's two, since the character device is amdgpu's own too
// (chrdev_open: cdev_get and fops_get).
const (
	weightDRM = 1
	weightKFD = 2
)
