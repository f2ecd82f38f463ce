package sim

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Mounted is a mounted node.
type Mounted struct {
	node   *Node
	dir    string
	server *fuse.Server
}

// Mount mounts the node at the directory, with sys, dev and ctl below it. It needs root and /dev/fuse.
func Mount(n *Node, dir string) (*Mounted, error) {
	fd, err := mountFUSE(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot mount the simulated node at %s: %w", dir, err)
	}
	m := &Mounted{node: n, dir: dir}
	if err := m.serve(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot serve the simulated node at %s: %w", dir, err), m.Unmount())
	}
	return m, nil
}

func (m *Mounted) serve(fd int) error {
	var now time.Duration
	tree := newForgetting(m.node, &fs.Options{EntryTimeout: &now, AttrTimeout: &now, NegativeTimeout: &now, NullPermissions: true})
	var err error
	m.server, err = fuse.NewServer(tree, fmt.Sprintf("/dev/fd/%d", fd),
		&fuse.MountOptions{MaxWrite: largest, EnableSymlinkCaching: true, DisableXAttrs: true, DisableReadDirPlus: true})
	if err != nil {
		return err
	}
	m.node.mu.onChange(tree.forget)
	go m.server.Serve()
	if err := m.server.WaitMount(); err != nil {
		return err
	}
	return refusePolls(filepath.Join(m.dir, "ctl/state"))
}

// largest is the size of the largest request in bytes.
const largest = 128 << 10

// mountFUSE mounts without the helper program of mount(8). go-fuse can do that, too, but child processes
// inherit its descriptor. Then the mount outlives the server, and opens hang instead of failing.
func mountFUSE(dir string) (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/fuse: %w", err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read=%d", fd, largest)
	if err := unix.Mount("dcm-sim", dir, "fuse.dcm-sim", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// refusePolls causes one poll, after whose refusal the kernel sends no more. Go's runtime polls every
// file that it opens, and would block on a server in the same process.
func refusePolls(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err
}

// Unmount unmounts the node. Open files stay usable until they are closed or this process ends.
func (m *Mounted) Unmount() error {
	m.node.mu.onChange(nil)
	if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", m.dir, err)
	}
	return nil
}

// Abort unmounts the node immediately. Operations that hang in it fail, and so does each use of an open
// file. Without Abort, a process that uses its own node could not end while one of its writes hangs.
func (m *Mounted) Abort() error {
	// With MNT_FORCE the kernel first closes the connection (fuse_umount_begin). Then it returns
	// EBUSY if there are open files.
	if err := unix.Unmount(m.dir, unix.MNT_FORCE); err == nil {
		return nil
	}
	return m.Unmount()
}

// Wait waits until the node is unmounted and no file of it is open.
func (m *Mounted) Wait() { m.server.Wait() }
