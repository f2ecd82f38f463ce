// Package openfiles finds the processes that have device nodes open. It identifies a node by
// its device number and not by its name, in any mount namespace. It knows /proc and no
// driver: the callers know which nodes belong to a driver and what an open node means.
package openfiles

import (
	"cmp"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
)

// Nodes are the device nodes to search for.
type Nodes struct {
	dev       string
	known     map[identity]*node
	anonymous map[string]string // "anon_inode:" plus a prefix → name of the node
	removed   *removedKind

	mu           sync.Mutex
	ownershipErr error // first error of a check
}

// node is a device node to search for.
type node struct {
	name   string // "/dev/kfd"
	weight int    // what each open file adds to the driver's use count

	check   func() (bool, error) // reports whether the node belongs to the driver; nil: it does
	once    sync.Once
	matches bool // result of check
}

// NewNodes returns an empty set. dev is the directory of device nodes, "/dev".
func NewNodes(dev string) *Nodes {
	return &Nodes{dev: dev, known: make(map[identity]*node), anonymous: make(map[string]string)}
}

// AddAnonymous makes files without a node whose name starts with begin count as the node
// name.
func (n *Nodes) AddAnonymous(begin, name string) { n.anonymous["anon_inode:"+begin] = name }

// removedKind describes nodes that no longer exist and may still be open: their device was
// unbound or unplugged.
type removedKind struct {
	major  uint32
	weight int
	name   func(minor uint32) string
	check  func(fdinfo string) bool
}

// AddRemoved makes open devices of the major number that were not added count as removed
// nodes. name returns the name of a node from its minor number. ours reports from the text
// of /proc/PID/fdinfo/FD whether an open file belongs to the driver.
func (n *Nodes) AddRemoved(major uint32, weight int, name func(minor uint32) string, ours func(fdinfo string) bool) {
	n.removed = &removedKind{major, weight, name, ours}
}

// lookupRemoved returns the removed node that an open file belonged to, or nil. fdinfo
// returns the text of the file's fdinfo.
func (n *Nodes) lookupRemoved(id identity, fdinfo func() string) *node {
	if n.removed == nil || unix.Major(id.rdev) != n.removed.major || n.known[id] != nil || !n.removed.check(fdinfo()) {
		return nil
	}
	return &node{name: n.removed.name(unix.Minor(id.rdev)), weight: n.removed.weight}
}

// identity identifies a device node under any name and in any mount namespace. It is the
// device number, or device and inode for a file that is no device node.
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

// Add adds a node below the device directory. If the node is hidden from this process
// (PrivateDevices=), its device number is read from the file number in sysfs. weight is what
// each open file of the node adds to the driver's use count.
func (n *Nodes) Add(name, number string, weight int) error {
	return n.AddConditional(name, number, weight, nil)
}

// AddConditional is Add for a node that may belong to another driver. ours decides. It is
// called at most once, and only if a process has the node open.
func (n *Nodes) AddConditional(name, number string, weight int, ours func() (bool, error)) error {
	known := &node{name: "/dev/" + name, weight: weight, check: ours}
	var st unix.Stat_t
	path := n.dev + "/" + name
	err := unix.Stat(path, &st)
	switch {
	case err == nil:
		n.known[identify(&st)] = known
		n.known[identity{dev: st.Dev, ino: st.Ino}] = known // as in /proc/PID/maps
		return nil
	case err != unix.ENOENT:
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	text, err := sysfs.Optional(number)
	if text == "" || err != nil {
		return err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(text, "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("%s holds %q, not a device number", number, text)
	}
	n.known[identity{rdev: unix.Mkdev(major, minor)}] = known
	return nil
}

// lookup returns the node of a file, or nil. A node whose check fails counts.
func (n *Nodes) lookup(id identity) *node {
	known := n.known[id]
	if known == nil || known.check == nil {
		return known
	}
	known.once.Do(func() {
		var err error
		if known.matches, err = known.check(); err != nil {
			known.matches = true
			n.mu.Lock()
			n.ownershipErr = cmp.Or(n.ownershipErr, err)
			n.mu.Unlock()
		}
	})
	if !known.matches {
		return nil
	}
	return known
}

// OwnershipError returns the error of a check of a node that a process has open.
func (n *Nodes) OwnershipError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ownershipErr
}
