package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/pathwalk"
)

// Trust defines whose files are trusted: those of root and of one user.
type Trust struct {
	Root string // "/"; a test may set a directory, whose parents are not checked
	User int    // the user of the program

	overflow int // the ID that the kernel shows for owners without a mapping, if trusted; otherwise -1
}

// TrustOf returns the trust for a program that runs as a user.
func TrustOf(user int) Trust {
	return Trust{Root: "/", User: user, overflow: overflow()}
}

// UntrustedError is returned if another user could have written a file.
type UntrustedError struct {
	File string // the path to open
	At   string // the directory, link or file on this path
	Why  string
}

func (e *UntrustedError) Error() string {
	if e.At == e.File {
		return fmt.Sprintf("%s is refused: it %s", e.File, e.Why)
	}
	return fmt.Sprintf("%s is refused: %s, on its path, %s", e.File, e.At, e.Why)
}

// Open opens a regular file for reading. It returns an [*UntrustedError] if another user owns or can
// write to the file, a directory on the path or a symbolic link on the path. It opens each directory
// relative to the one before, so the file that it opens is the one that it has checked. The name of the
// returned file is the path without symbolic links.
//
// A directory with the sticky bit may be writable for other users: they cannot replace entries of
// trusted owners.
func (t Trust) Open(path string) (*os.File, error) {
	w := walk{trust: t, file: path, path: pathwalk.New("/", path)}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("cannot open %s: not an absolute path", path)
	}
	defer w.close()
	if err := w.start(); err != nil {
		return nil, err
	}
	for len(w.path.Rest) > 0 {
		f, err := w.step()
		if err != nil || f != nil {
			return f, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
}

// walk is the state of the resolution of a path.
type walk struct {
	trust Trust
	file  string
	path  *pathwalk.Walk
	dir   int // the open directory, path.Dir; -1: none
}

func (w *walk) close() {
	if w.dir >= 0 {
		unix.Close(w.dir)
	}
	w.dir = -1
}

// start opens the root: at the beginning, and for an absolute link.
func (w *walk) start() error {
	w.close()
	fd, err := unix.Open(w.trust.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.dir = -1
		return &fs.PathError{Op: "open", Path: w.trust.Root, Err: err}
	}
	w.dir = fd
	_, err = w.check(fd, "/")
	return err
}

// step resolves one component. It returns the file if that was the last one.
func (w *walk) step() (*os.File, error) {
	name := w.path.Rest[0]
	at := w.path.Next()
	fd, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	st, err := w.check(fd, at)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		unix.Close(w.dir)
		w.dir, w.path.Dir = fd, at
		return nil, nil
	case unix.S_IFLNK:
		defer unix.Close(fd)
		return nil, w.follow(fd, at)
	case unix.S_IFREG:
		defer unix.Close(fd)
		if len(w.path.Rest) > 0 {
			return nil, &fs.PathError{Op: "open", Path: at, Err: unix.ENOTDIR}
		}
		return w.open(name, at, st)
	}
	unix.Close(fd)
	return nil, &UntrustedError{w.file, at, "is neither a file nor a directory"}
}

// follow puts the target of a link before the rest of the path.
func (w *walk) follow(fd int, at string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: at, Err: err}
	}
	to := string(target[:n])
	if err := w.path.Follow(to); err != nil {
		return &fs.PathError{Op: "open", Path: w.file, Err: err}
	}
	if filepath.IsAbs(to) {
		return w.start()
	}
	return nil
}

// open opens the file. It returns an [*UntrustedError] if the file was replaced since st was read.
func (w *walk) open(name, at string, st unix.Stat_t) (*os.File, error) {
	fd, err := unix.Openat(w.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	now, err := w.check(fd, at)
	if err == nil && (now.Dev != st.Dev || now.Ino != st.Ino) {
		err = &UntrustedError{w.file, at, "was replaced meanwhile"}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), at), nil
}

// check returns the status of fd, or an [*UntrustedError].
func (w *walk) check(fd int, at string) (st unix.Stat_t, err error) {
	if err := unix.Fstat(fd, &st); err != nil {
		return st, &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	writable := st.Mode&0o022 != 0 && st.Mode&unix.S_IFMT != unix.S_IFLNK
	sticky := st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0
	switch {
	case !w.trust.owner(int(st.Uid)):
		err = &UntrustedError{w.file, at, fmt.Sprintf("belongs to user %d and not to root: chown -h root %s", st.Uid, at)}
	case writable && !sticky:
		err = &UntrustedError{w.file, at, fmt.Sprintf("can be written to by its group or by others (mode %04o): chmod go-w %s", st.Mode&0o7777, at)}
	}
	return st, err
}

func (t Trust) owner(uid int) bool {
	return uid == 0 || uid == t.User || uid == t.overflow
}

// overflow returns the ID that the kernel shows for owners without a mapping in this user namespace, if
// root has no mapping; otherwise -1. In such a namespace root's files look like those of other unmapped
// users, so files of all of them are trusted. Only unprivileged users run in such a namespace, and
// every program that loads the library has the same risk there.
func overflow() int {
	maps, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "0" {
			return -1
		}
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return -1
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return uid
}
