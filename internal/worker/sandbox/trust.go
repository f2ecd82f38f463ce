package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Trust says whose files are trusted: root's, and those of the user whom the
// program runs for.
type Trust struct {
	Root string // "/" but in tests: what lies above it is not judged
	User int    // whom the program runs for

	overflow int // as whose the files of others are shown here, -1: as theirs
}

// TrustOf is the trust of a program that runs for a user.
func TrustOf(user int) Trust {
	return Trust{Root: "/", User: user, overflow: overflow()}
}

// UntrustedError is a file that somebody else could have put there.
type UntrustedError struct {
	File string // what was to be opened
	At   string // the directory, link or file on the way to it
	Why  string
}

func (e *UntrustedError) Error() string {
	if e.At == e.File {
		return fmt.Sprintf("%s is refused: it %s", e.File, e.Why)
	}
	return fmt.Sprintf("%s is refused: %s, on the way to it, %s", e.File, e.At, e.Why)
}

// most is how many symbolic links may be on the way to a file, as in the kernel.
const most = 40

// Open opens a regular file for reading, unless it, a directory above it or a
// symbolic link on the way belongs to somebody who is not trusted, or can be
// written to by others. It walks from one open directory to the next, so that what
// is opened is what was judged. The file's name is its path without links.
//
// In a directory with the sticky bit only owners replace what is theirs, and an
// entry has to be root's anyway, so that one is let pass.
func (t Trust) Open(path string) (*os.File, error) {
	w := walk{trust: t, file: path, rest: split(path)}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("cannot open %s: not an absolute path", path)
	}
	defer w.close()
	if err := w.start(); err != nil {
		return nil, err
	}
	for links := 0; len(w.rest) > 0; {
		f, link, err := w.step()
		if err != nil || f != nil {
			return f, err
		}
		if link {
			if links++; links > most {
				return nil, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
}

// walk is the way to a file, as far as it has been gone.
type walk struct {
	trust Trust
	file  string
	dir   int    // the open directory; -1: none
	at    string // its path
	rest  []string
}

func (w *walk) close() {
	if w.dir >= 0 {
		unix.Close(w.dir)
	}
	w.dir = -1
}

// start goes to the root, at first and at an absolute link.
func (w *walk) start() error {
	w.close()
	fd, err := unix.Open(w.trust.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.dir = -1
		return &fs.PathError{Op: "open", Path: w.trust.Root, Err: err}
	}
	w.dir, w.at = fd, "/"
	_, err = w.judge(fd, "/")
	return err
}

// step goes one name on. It returns the file at the end of the way, and whether
// the name was a link's.
func (w *walk) step() (_ *os.File, link bool, err error) {
	name := w.rest[0]
	w.rest = w.rest[1:]
	at := filepath.Join(w.at, name)
	fd, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	st, err := w.judge(fd, at)
	if err != nil {
		unix.Close(fd)
		return nil, false, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		unix.Close(w.dir)
		w.dir, w.at = fd, at
		return nil, false, nil
	case unix.S_IFLNK:
		defer unix.Close(fd)
		return nil, true, w.follow(fd, at)
	case unix.S_IFREG:
		defer unix.Close(fd)
		if len(w.rest) > 0 {
			return nil, false, &fs.PathError{Op: "open", Path: at, Err: unix.ENOTDIR}
		}
		f, err := w.open(name, at, st)
		return f, false, err
	}
	unix.Close(fd)
	return nil, false, &UntrustedError{w.file, at, "is neither a file nor a directory"}
}

// follow puts the target of a link before the rest of the way.
func (w *walk) follow(fd int, at string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: at, Err: err}
	}
	to := string(target[:n])
	w.rest = append(split(to), w.rest...)
	if filepath.IsAbs(to) {
		return w.start()
	}
	return nil
}

// open opens the file that st is of.
func (w *walk) open(name, at string, st unix.Stat_t) (*os.File, error) {
	fd, err := unix.Openat(w.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	now, err := w.judge(fd, at)
	if err == nil && (now.Dev != st.Dev || now.Ino != st.Ino) {
		err = &UntrustedError{w.file, at, "was replaced meanwhile"}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), at), nil
}

// judge returns what is open at fd, or an error that tells why it is not trusted.
func (w *walk) judge(fd int, at string) (st unix.Stat_t, err error) {
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

// overflow returns as whose the kernel shows the files of users that have no
// number in this user namespace, if root is one of them: then whose they are cannot
// be told. Only a user who is not root is in such a one, and has no more to lose
// here than with any other program that loads the library.
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

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
