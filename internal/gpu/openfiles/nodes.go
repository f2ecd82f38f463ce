// Package openfiles finds who has device nodes open: by what a file is and not by its
// name, in whatever mount namespace, whoever the process belongs to. It knows /proc,
// and no driver: whose the nodes are, and what an open one means, its callers know.
package openfiles

import (
	"cmp"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
)

// Nodes are the device nodes that are looked for.
type Nodes struct {
	dev       string
	known     map[identity]*node
	anonymous map[string]string // the begin of a name behind "anon_inode:" → the node
	removed   *removedKind

	mu           sync.Mutex
	ownershipErr error // what kept telling whose a node is
}

// node is one of them.
type node struct {
	name   string // "/dev/kfd"
	weight int    // what each open file of it adds to its driver's use count

	check   func() (bool, error) // nil: it is
	once    sync.Once
	matches bool // what ours has told
}

// NewNodes returns none yet, of those under the device root.
func NewNodes(dev string) *Nodes {
	return &Nodes{dev: dev, known: make(map[identity]*node), anonymous: make(map[string]string)}
}

// Anonymous has files without a node, whose name begins so, count for that node.
func (n *Nodes) AddAnonymous(begin, name string) { n.anonymous["anon_inode:"+begin] = name }

// removed is a kind of node that no longer exists but may still be open: its device was
// unbound or unplugged meanwhile.
type removedKind struct {
	major  uint32
	weight int
	name   func(minor uint32) string
	check  func(fdinfo string) bool
}

// AddRemoved makes open devices of the major number whose node was not added count as
// nodes that no longer exist. name returns a node's name from its minor number, ours
// whether /proc/PID/fdinfo/FD of an open file is one of the driver's.
func (n *Nodes) AddRemoved(major uint32, weight int, name func(minor uint32) string, ours func(fdinfo string) bool) {
	n.removed = &removedKind{major, weight, name, ours}
}

// ofRemoved returns the node that an open file was, nil if it was none of the driver's.
// fdinfo returns the text of the file's fdinfo.
func (n *Nodes) lookupRemoved(id identity, fdinfo func() string) *node {
	if n.removed == nil || unix.Major(id.rdev) != n.removed.major || n.known[id] != nil || !n.removed.check(fdinfo()) {
		return nil
	}
	return &node{name: n.removed.name(unix.Minor(id.rdev)), weight: n.removed.weight}
}

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

// Add adds the node of that name under the device root, or, where it is hidden from
// this process (PrivateDevices=), the device number that sysfs has for it in a file.
// weight is what each open file of it adds to the use count of its driver.
func (n *Nodes) Add(name, number string, weight int) error {
	return n.AddConditional(name, number, weight, nil)
}

// AddConditional is Add of a node that may be another's. That is asked when somebody is found to
// have it open, and no more than once: of most nodes nobody has to know.
func (n *Nodes) AddConditional(name, number string, weight int, ours func() (bool, error)) error {
	known := &node{name: "/dev/" + name, weight: weight, check: ours}
	var st unix.Stat_t
	path := n.dev + "/" + name
	err := unix.Stat(path, &st)
	switch {
	case err == nil:
		n.known[identify(&st)] = known
		n.known[identity{dev: st.Dev, ino: st.Ino}] = known // as /proc/PID/maps has it
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

// of returns the node that a file is, nil if none. One of which it cannot be told whose it
// is counts.
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

// Unsure is why it could not be told of a node that was found open whose it is.
func (n *Nodes) OwnershipError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ownershipErr
}
