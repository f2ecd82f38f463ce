package sim

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Entry is one file, directory, link or device of the tree.
type Entry struct {
	Mode   uint32 // type and permissions
	Target string // target of a link
	Number int    // of this entry among those that the path has had, which have different inodes

	content *string // of a file that always has this one; then read returns it

	read   func(context.Context) (string, error)
	write  func(context.Context, string) error
	device func(pid int) (*Handle, error) // opens a device
	list   func() map[string]*Entry       // a directory's entries
	live   bool                           // the entries change without a change of the node's structure
	hidden bool                           // the name is known, but the file does not exist
}

// cache contains the tree of one state of the structure.
type cache struct {
	structure, topology uint64
	root                *Entry
	nodes               map[string]*Entry
}

// Lookup returns the entry at the path, such as "sys/class/kfd", without following links.
func (n *Node) Lookup(name string) (*Entry, bool) {
	e := treeOf(n)
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			continue
		}
		if e.list == nil {
			return nil, false
		}
		if e = e.list()[part]; e == nil {
			return nil, false
		}
	}
	return e, true
}

// ReadFile returns the content of the file at the path. It follows links.
func (n *Node) ReadFile(ctx context.Context, name string) (string, error) {
	e, err := follow(n, name, 40)
	if err != nil {
		return "", err
	}
	if e.read == nil {
		return "", syscall.EACCES
	}
	return e.read(ctx)
}

// follow resolves links (path_resolution(7)), for readers of a tree that is not mounted.
func follow(n *Node, name string, links int) (*Entry, error) {
	done, rest := "", strings.Trim(path.Clean("/"+name), "/")
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		done = path.Join(done, part)
		e, ok := n.Lookup(done)
		switch {
		case !ok || e.hidden:
			return nil, syscall.ENOENT
		case e.Mode&syscall.S_IFMT != syscall.S_IFLNK:
			continue
		case links == 0:
			return nil, syscall.ELOOP
		}
		return follow(n, path.Join(path.Dir(done), e.Target, rest), links-1)
	}
	e, _ := n.Lookup(done)
	return e, nil
}

// Names returns the names in a directory; nil if the path is not a directory.
func (e *Entry) Names() []string {
	if e.list == nil {
		return nil
	}
	entries := e.list()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(entries)), func(name string) bool { return entries[name].hidden })
}

// treeOf returns the tree for the present state of the node.
func treeOf(n *Node) *Entry {
	n.mu.LockRead()
	defer n.mu.UnlockRead()
	if n.cache.root == nil || n.cache.structure != n.structure {
		t := newTree()
		addSys(n, t)
		addDev(n, t)
		addNVIDIA(n, t)
		addCtl(n, t)
		n.cache.root, n.cache.structure = t.root(), n.structure
		applyLies(n, "", n.cache.root)
	}
	return n.cache.root
}

// tree is a directory under construction.
type tree map[string]*Entry

func newTree() tree { return make(tree) }

func (t tree) root() *Entry { return directory(func() map[string]*Entry { return t }) }

// dir returns the directory at the path. It adds the directory if it does not exist.
func (t tree) dir(name string) tree {
	for part := range strings.SplitSeq(name, "/") {
		below := newTree()
		if have := t[part]; have != nil {
			below = have.list()
		} else {
			t[part] = below.root()
		}
		t = below
	}
	return t
}

// put adds an entry, and the directories above it.
func (t tree) put(name string, e *Entry) {
	if dir, base := path.Split(name); dir != "" {
		t.dir(strings.TrimSuffix(dir, "/"))[base] = e
	} else {
		t[base] = e
	}
}

// text adds a read-only file.
func (t tree) text(name, content string) { t.put(name, file(0o444, content)) }

// link adds a link to another path of the same tree. t is the root of the tree.
func (t tree) link(name, target string) { t.put(name, link(name, target)) }

// lazy adds a directory whose entries are made at the first access.
func (t tree) lazy(name string, build func(tree)) {
	t.put(name, directory(sync.OnceValue(func() map[string]*Entry {
		below := newTree()
		build(below)
		return below
	})))
}

func directory(list func() map[string]*Entry) *Entry {
	return &Entry{Mode: syscall.S_IFDIR | 0o755, list: list}
}

// liveDirectory returns a directory whose entries are made at each access.
func liveDirectory(list func() map[string]*Entry) *Entry {
	e := directory(list)
	e.live = true
	return e
}

// file returns a file whose content ends with a newline, unless it is empty.
func file(permissions uint32, content string) *Entry {
	if content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	return &Entry{
		Mode:    syscall.S_IFREG | permissions,
		content: &content,
		read:    func(context.Context) (string, error) { return content, nil },
	}
}

// link returns a link from one path of the tree to another. It is relative, as in sysfs: it goes up to the
// common directory of the link's directory and the target's parent, so the last element is always the
// target's name (kernfs_get_target_path).
func link(from, to string) *Entry {
	target, err := filepath.Rel(filepath.Dir("/"+from), filepath.Dir("/"+to))
	if err != nil {
		panic(err) // impossible, since both paths are absolute
	}
	return &Entry{Mode: syscall.S_IFLNK | 0o777, Target: filepath.Join(target, filepath.Base(to))}
}

// device returns a device node. It is a regular file, since an open of a character device would reach the
// kernel's driver.
func device(open func(pid int) (*Handle, error)) *Entry {
	return &Entry{Mode: syscall.S_IFREG | 0o666, device: open}
}
