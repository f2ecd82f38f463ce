package sim

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// forgetting is a file system whose names the kernel caches until forget.
type forgetting struct {
	fuse.RawFileSystem
	node    *Node
	root    *inode
	lookups sync.RWMutex // held for reading by each lookup
}

func newForgetting(n *Node, o *fs.Options) *forgetting {
	root := &inode{face: newFace(n)}
	return &forgetting{RawFileSystem: fs.NewNodeFS(root, o), node: n, root: root}
}

func (f *forgetting) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.lookups.RLock()
	defer f.lookups.RUnlock()
	return f.RawFileSystem.Lookup(cancel, h, name, out)
}

// forget makes the kernel forget each entry that is hidden, gone or another one now. A lookup that found
// the entry before the change is in the list of go-fuse as soon as it has released the lock. The kernel gets
// the answer first, since a notification waits for the lookups in its directory.
func (f *forgetting) forget() {
	f.lookups.Lock()
	stale := staleBelow(f.root, treeOf(f.node), nil)
	f.lookups.Unlock()
	for _, s := range stale {
		s.dir.NotifyEntry(s.name) // ENOENT: the kernel has forgotten it already
	}
}

// staleName is a name that the kernel must forget.
type staleName struct {
	dir  *inode
	name string
}

// staleBelow adds the stale names below a directory, whose present entry is e. The kernel caches
// nothing below a live one.
func staleBelow(dir *inode, e *Entry, stale []staleName) []staleName {
	if e.list == nil || e.live {
		return stale
	}
	entries := e.list()
	for name, child := range dir.Children() {
		below, ok := child.Operations().(*inode)
		if !ok || below.live {
			continue
		}
		if e := entries[name]; e == nil || e.hidden || e.inode(below.path) != child.StableAttr().Ino {
			stale = append(stale, staleName{dir, name})
		} else {
			stale = staleBelow(below, e, stale)
		}
	}
	return stale
}
