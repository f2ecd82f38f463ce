package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/attr"
	"dcm/internal/gpu"
)

// identity is what a device node is, by whatever name and in whatever mount
// namespace it is opened: the device's number, or the file itself where the node
// is none.
type identity struct{ rdev, dev, ino uint64 }

func identify(st *unix.Stat_t) identity {
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return identity{rdev: st.Rdev}
	}
	return identity{dev: st.Dev, ino: st.Ino}
}

func identifyStatx(st *unix.Statx_t) identity {
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return identity{rdev: unix.Mkdev(st.Rdev_major, st.Rdev_minor)}
	}
	return identity{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}
}

// deviceNodes returns the nodes through which the GPUs of the amdgpu driver are
// opened, with their names: the KFD's, and those of each GPU's partitions. Other
// cards' are not among them.
func (n *Node) deviceNodes() (map[identity]string, error) {
	nodes := make(map[identity]string)
	if err := n.addNode(nodes, "kfd", n.sys("class/kfd/kfd/dev")); err != nil {
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
		ours, err := n.drivesCard(name)
		if err != nil {
			return nil, err
		}
		if !ours {
			continue
		}
		if err := n.addNode(nodes, "dri/"+name, n.sys("class/drm", name, "dev")); err != nil {
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

// addNode adds the node under the device root, or, where it is hidden from this
// process (PrivateDevices=), the device number that sysfs has for it.
func (n *Node) addNode(nodes map[identity]string, name, number string) error {
	var st unix.Stat_t
	path := filepath.Join(n.roots.Dev, name)
	err := unix.Stat(path, &st)
	switch {
	case err == nil:
		nodes[identify(&st)] = "/dev/" + name
		nodes[identity{dev: st.Dev, ino: st.Ino}] = "/dev/" + name // as /proc/PID/maps has it
		return nil
	case err != unix.ENOENT:
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	text, err := attr.Optional(number)
	if text == "" || err != nil {
		return err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(text, "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("%s holds %q, not a device number", number, text)
	}
	nodes[identity{rdev: unix.Mkdev(major, minor)}] = "/dev/" + name
	return nil
}
