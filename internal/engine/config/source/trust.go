package source

import (
	"io/fs"
	"os"
	"strings"
	"syscall"

	"dcm/internal/linux/pathwalk"
	"dcm/internal/sanitize"
)

// plain reports whether path is a regular file that only root, or the user of this process, can write.
func (r *Reader) plain(path sanitize.Name, info fs.FileInfo) bool {
	switch {
	case !info.Mode().IsRegular():
		r.fail(path, 0, "not a regular file (found %s)", kind(info.Mode()))
	case info.Size() > MaxFileBytes:
		r.fail(path, 0, "too large (found %d bytes, want at most 1 MiB)", info.Size())
	default:
		return r.Trusted(path, info)
	}
	return false
}

// reached reports whether only root can replace the file at path: all directories of the path are
// safe, including those of symbolic links.
func (r *Reader) reached(path sanitize.Name) bool {
	at, rest := "/", path.Raw()
	if below, ok := strings.CutPrefix(rest, strings.TrimSuffix(r.root, "/")+"/"); ok && r.root != "" {
		at, rest = r.root, below
	}
	if !r.safeDir(sanitize.Named(at)) {
		return false
	}
	for walk := pathwalk.New(at, rest); len(walk.Rest) > 0; {
		next := walk.Next()
		info, err := os.Lstat(next)
		if err != nil {
			r.fail(path, 0, "cannot read it: %s", Cause(err))
			return false
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(next)
			if err == nil {
				err = walk.Follow(target)
			}
			if err != nil {
				r.fail(path, 0, "cannot read it: %s", Cause(err))
				return false
			}
		case info.IsDir():
			walk.Dir = next
		}
		if !r.safeDir(sanitize.Named(walk.Dir)) {
			return false
		}
	}
	return true
}

// safeDir reports whether only root can replace files in dir. A sticky bit does not suffice, since
// other users can add files.
func (r *Reader) safeDir(dir sanitize.Name) bool {
	if ok, done := r.safe[dir]; done {
		return ok
	}
	r.safe[dir] = false
	info, err := os.Stat(dir.Raw())
	if err != nil {
		r.fail(dir, 0, "cannot read the directory: %s", Cause(err))
		return false
	}
	r.safe[dir] = r.Trusted(dir, info)
	return r.safe[dir]
}

// Trusted reports whether only root, or the user of this process, can write to a file or directory.
func (r *Reader) Trusted(path sanitize.Name, info fs.FileInfo) bool {
	if path == r.unowned {
		return true
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		r.fail(path, 0, "unsafe: group or others can write to it (mode %04o). hint: chmod go-w %s", mode, path)
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		r.fail(path, 0, "unsafe: wrong owner (found user %d, want root). hint: chown root %s", owner.Uid, path)
		return false
	}
	return true
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
