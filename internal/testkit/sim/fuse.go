package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// inode is a path of the tree. It looks up the entry at each operation, so a change of the tree is
// visible immediately, unless [Options.Cache] permits a delay. The kernel caches only what never
// changes. Otherwise it would send two requests for each component of each path.
type inode struct {
	fs.Inode
	face *face
	path string
}

var (
	_ fs.NodeLookuper   = (*inode)(nil)
	_ fs.NodeReaddirer  = (*inode)(nil)
	_ fs.NodeGetattrer  = (*inode)(nil)
	_ fs.NodeSetattrer  = (*inode)(nil)
	_ fs.NodeReadlinker = (*inode)(nil)
	_ fs.NodeOpener     = (*inode)(nil)
)

func (i *inode) entry() (*Entry, bool) {
	e, ok := i.face.node.Lookup(i.path)
	return e, ok && !e.hidden
}

// Lookup also finds hidden entries. Otherwise the kernel would drop the name, and a file that is
// bind-mounted elsewhere would count as deleted.
func (i *inode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	below := path.Join(i.path, name)
	e, ok := i.face.node.Lookup(below)
	if !ok {
		return nil, syscall.ENOENT
	}
	i.face.attributes(e, &out.Attr)
	if !e.hidden {
		out.SetEntryTimeout(i.face.lasts(below, i.face.node.opts.Cache))
		out.SetAttrTimeout(i.face.known(e))
	}
	stable := fs.StableAttr{Mode: e.Mode & syscall.S_IFMT, Ino: e.inode(below)}
	return i.NewInode(ctx, &inode{face: i.face, path: below}, stable), 0
}

// inode returns the inode number of the entry at a path. It is always the same, so that a bind-mounted file
// is the same file after it was hidden.
func (e *Entry) inode(name string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, e.Number, name)
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
	out.SetTimeout(i.face.known(e))
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
// too, even for root (kernfs_fop_open). A hidden file is not found.
func (i *inode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	e, ok := i.entry()
	access := flags & syscall.O_ACCMODE
	switch {
	case !ok:
		return nil, 0, syscall.ENOENT
	case e.device != nil:
		h, err := e.device(i.face.process(ctx))
		return &openDevice{handle: h, face: i.face}, fuse.FOPEN_DIRECT_IO, errno(err)
	case access != syscall.O_RDONLY && e.write == nil, access != syscall.O_WRONLY && e.read == nil:
		return nil, 0, syscall.EACCES
	}
	return &openFile{inode: i}, fuse.FOPEN_DIRECT_IO, 0
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return fs.ToErrno(err)
}
