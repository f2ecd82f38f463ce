package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/sanitize"
)

// Dir is an open directory. Reads of many attributes below it are faster, since the kernel need not
// resolve the long path with symbolic links each time. Its methods are like the functions of the same
// names, but for paths relative to the directory.
type Dir struct {
	path string
	fd   int
}

// anywhere is the Dir for absolute paths, and for paths relative to the working directory.
var anywhere = Dir{fd: unix.AT_FDCWD}

// OpenDir opens a directory. The caller must close it.
func OpenDir(path string) (Dir, error) { return anywhere.Open(path) }

// Open is [OpenDir] for a relative path.
func (d Dir) Open(rel string) (Dir, error) {
	fd, err := d.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	return Dir{d.Path(rel), fd}, err
}

// Close closes the directory.
func (d Dir) Close() { unix.Close(d.fd) }

// Path returns the path of rel.
func (d Dir) Path(rel string) string {
	if d.path == "" {
		return rel
	}
	return d.path + "/" + rel
}

// failed returns the error of an operation on rel.
func (d Dir) failed(op, rel string, err error) error {
	return &fs.PathError{Op: op, Path: d.Path(rel), Err: err}
}

// Read is [Read].
func (d Dir) Read(rel string) (string, error) {
	var page [attributeSize]byte // on the stack, since an inspection of a node reads hundreds of attributes
	text, err := d.read(rel, page[:0])
	if err != nil {
		return "", sanitize.Error(err)
	}
	return sanitize.Lines(string(bytes.TrimSpace(text))), nil
}

// read reads an attribute into buf, which is enlarged if necessary. A read that does not fill the
// buffer is the last one. It calls read(2) directly, since some attributes return EAGAIN, after which
// os.File would wait.
func (d Dir) read(rel string, buf []byte) ([]byte, error) {
	fd, err := d.open(rel, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, d.failed("read", rel, err)
		case len(buf)+n > attributeLimit:
			return nil, d.failed("read", rel, unix.EFBIG)
		}
		if buf = buf[:len(buf)+n]; len(buf) < cap(buf) {
			return buf, nil
		}
	}
}

func (d Dir) open(rel string, how int) (int, error) {
	for {
		fd, err := unix.Openat(d.fd, rel, how|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, d.failed("open", rel, err)
		}
		return fd, nil
	}
}

// Optional is [Optional].
func (d Dir) Optional(rel string) (string, error) {
	text, err := d.Read(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// Number is [Number].
func (d Dir) Number(rel string, bits int) (uint64, error) {
	text, err := d.Read(rel)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%s: not a number of %d bits (found %q)", d.Path(rel), bits, text)
	}
	return v, nil
}

// Link is [Link].
func (d Dir) Link(rel string) (string, error) {
	target, err := d.Target(rel)
	if target == "" || err != nil {
		return "", err
	}
	return path.Base(target), nil
}

// Target returns the target of a symbolic link, escaped, or "" if there is no link.
func (d Dir) Target(rel string) (string, error) {
	var target [unix.PathMax]byte // on the stack, as in Read
	for {
		n, err := unix.Readlinkat(d.fd, rel, target[:])
		switch err {
		case nil:
			return sanitize.Text(string(target[:n])), nil
		case unix.EINTR:
		case unix.ENOENT:
			return "", nil
		default:
			return "", sanitize.Error(d.failed("readlink", rel, err))
		}
	}
}

// Inode returns the inode number of rel, which may be a link; 0 if it does not exist. The kernel does not
// use the number of a removed directory entry again for a long time (kernfs_new_node allocates them
// cyclically).
func (d Dir) Inode(rel string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, rel, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return 0, nil
	}
	if err != nil {
		return 0, d.failed("stat", rel, err)
	}
	return st.Ino, nil
}

// Mode returns the permission bits of rel.
func (d Dir) Mode(rel string) (fs.FileMode, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, rel, &st, 0); err != nil {
		return 0, d.failed("stat", rel, err)
	}
	return fs.FileMode(st.Mode & 0o777), nil
}
