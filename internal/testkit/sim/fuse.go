package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// inode is a path of the tree. The kernel caches all of it that changes only together with the
// structure of the node: what exists, attributes, the targets of links, and the contents of most files.
// [forgetting.forget] ends that after each change of the structure.
type inode struct {
	fs.Inode
	face *face
	path string
	live bool // the kernel must always ask whether it exists
}

var (
	_ fs.NodeLookuper   = (*inode)(nil)
	_ fs.NodeReaddirer  = (*inode)(nil)
	_ fs.NodeGetattrer  = (*inode)(nil)
	_ fs.NodeSetattrer  = (*inode)(nil)
	_ fs.NodeReadlinker = (*inode)(nil)
	_ fs.NodeOpener     = (*inode)(nil)
)

// entry returns the present entry of the path, unless it is hidden or another one than that of the inode.
func (i *inode) entry() (*Entry, bool) {
	e, ok := i.face.node.Lookup(i.path)
	return e, ok && !e.hidden && (i.IsRoot() || e.inode(i.path) == i.StableAttr().Ino)
}

// Lookup also finds hidden entries. Otherwise the kernel would drop the name, and a file that is
// bind-mounted elsewhere would count as deleted.
func (i *inode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	parent, ok := i.face.node.Lookup(i.path)
	if !ok || parent.list == nil {
		return nil, syscall.ENOENT
	}
	e := parent.list()[name]
	if e == nil {
		return nil, syscall.ENOENT
	}
	below := &inode{face: i.face, path: path.Join(i.path, name), live: i.live || parent.live || e.device != nil}
	i.face.attributes(e, &out.Attr)
	if !e.hidden {
		out.SetAttrTimeout(below.timeout())
		out.SetEntryTimeout(below.timeout())
	}
	return i.NewInode(ctx, below, fs.StableAttr{Mode: e.Mode & syscall.S_IFMT, Ino: e.inode(below.path)}), 0
}

// timeout returns how long the kernel may cache the inode. Devices are bind-mounted, and hidden without a
// driver: if the kernel forgot one, it would count as deleted. So it always asks.
func (i *inode) timeout() time.Duration {
	if i.live {
		return 0
	}
	return 24 * time.Hour
}

// inode returns the inode number of the entry at a path. It is always the same, so that a bind-mounted file
// is the same file after it was hidden. An entry of which the kernel would cache something else has
// another number.
func (e *Entry) inode(name string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, e.Number, name, e.Mode, e.Target)
	if e.content != nil {
		io.WriteString(h, *e.content)
	}
	return h.Sum64() >> 1
}

func (i *inode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	e, ok := i.entry()
	if !ok {
		return nil, syscall.ENOENT
	}
	below := e.list()
	var out []fuse.DirEntry
	for _, name := range e.Names() {
		if e := below[name]; e != nil {
			out = append(out, fuse.DirEntry{Name: name, Mode: e.Mode, Ino: e.inode(path.Join(i.path, name))})
		}
	}
	return fs.NewListDirStream(out), 0
}

func (i *inode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	e, ok := i.entry()
	if !ok {
		return syscall.ENOENT
	}
	i.face.attributes(e, &out.Attr)
	out.SetTimeout(i.timeout())
	return 0
}

// Setattr accepts O_TRUNC and changes of owner and mode, which udev makes, and ignores them.
func (i *inode) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return i.Getattr(ctx, h, out)
}

func (i *inode) Readlink(context.Context) ([]byte, syscall.Errno) {
	e, ok := i.entry()
	if !ok {
		return nil, syscall.ENOENT
	}
	return []byte(e.Target), 0
}

// Open returns an error if the file is opened for an operation that it does not have. sysfs does that,
// too, even for root (kernfs_fop_open). A hidden file is not found. If the path has another entry now,
// the kernel looks it up again (ESTALE).
func (i *inode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	e, ok := i.entry()
	access := flags & syscall.O_ACCMODE
	switch {
	case !ok:
		return nil, 0, syscall.ESTALE
	case e.device != nil:
		h, err := e.device(i.face.process(ctx))
		return &openDevice{handle: h, face: i.face}, fuse.FOPEN_DIRECT_IO, errno(err)
	case access != syscall.O_RDONLY && e.write == nil, access != syscall.O_WRONLY && e.read == nil:
		return nil, 0, syscall.EACCES
	case access == syscall.O_RDONLY && e.content != nil:
		return cachedFile(*e.content), fuse.FOPEN_KEEP_CACHE, 0
	}
	return &openFile{inode: i}, fuse.FOPEN_DIRECT_IO, 0
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return fs.ToErrno(err)
}
