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
	dir    string
	server *fuse.Server
}

// Mount shows the node at the directory: below it sys, dev and ctl. It needs
// root and /dev/fuse.
func Mount(n *Node, dir string) (*Mounted, error) {
	fd, err := mountFUSE(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot mount the simulated node at %s: %w", dir, err)
	}
	m := &Mounted{dir: dir}
	var now time.Duration
	m.server, err = fs.Mount(fmt.Sprintf("/dev/fd/%d", fd), &inode{face: newFace(n)}, &fs.Options{
		EntryTimeout: &now, AttrTimeout: &now, NegativeTimeout: &now,
		NullPermissions: true,
		MountOptions:    fuse.MountOptions{MaxWrite: largest, DisableXAttrs: true, DisableReadDirPlus: true},
	})
	if err == nil {
		err = refusePolls(filepath.Join(dir, "ctl/state"))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot serve the simulated node at %s: %w", dir, err), m.Unmount())
	}
	return m, nil
}

// largest is the largest request.
const largest = 128 << 10

// mountFUSE is mount(8) without its helper. go-fuse would do it too, but its
// descriptor is inherited by every child process, and the mount then outlives
// the server: opens hang instead of failing.
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

// refusePolls provokes the one poll after which the kernel does not ask again. Go's
// runtime polls every file that it opens, and would block on a server that runs
// in the same process.
func refusePolls(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err
}

// Unmount takes the node away. Files that are still open stay so until they are
// closed or this process ends.
func (m *Mounted) Unmount() error {
	if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", m.dir, err)
	}
	return nil
}

// Abort unmounts the node immediately: what hangs in it fails, and so does
// every use of a file that is still open. A process that serves a node to itself
// could otherwise not end while one of its own writes hangs.
func (m *Mounted) Abort() error {
	// Forced, the kernel breaks the connection first (fuse_umount_begin) and then
	// says EBUSY if there are open files.
	if err := unix.Unmount(m.dir, unix.MNT_FORCE); err == nil {
		return nil
	}
	return m.Unmount()
}

// Wait waits until the node is unmounted, by whomever, and no file of it is open.
func (m *Mounted) Wait() { m.server.Wait() }
