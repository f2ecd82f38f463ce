package sandbox

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Loader loads a library and all that it needs. Each file is judged and opened once,
// and loaded by its descriptor: what lies at its path by then does not matter. The
// loader of glibc, which trusts every path that it is told or configured with, finds
// what a library needs among what is loaded already, and so does not look for it.
type Loader struct {
	Trust Trust
	// Open loads a file as dlopen does, without making its symbols global.
	Open func(path string) (uintptr, error)
	// Loaded reports whether the process has a library of that name.
	Loaded func(name string) bool

	cache []byte
	done  map[string]bool // the files by their paths without links
}

// ErrAbsent is that of a library of which there is none.
var ErrAbsent = errors.New("there is no such library")

// Load loads a library by its path or, without a slash, by its name in the places
// that the system's loader knows. Those of the others that are there are loaded
// first: what the library would ask the system's loader for while it runs. The
// error wraps [ErrAbsent] if it is not there, and an [*UntrustedError] if it or
// something that it needs is refused.
func (l *Loader) Load(name string, others ...string) (uintptr, error) {
	if l.done == nil {
		l.done = make(map[string]bool)
		// Root's; without it the fixed places are left.
		l.cache, _ = os.ReadFile(filepath.Join(l.Trust.Root, "etc/ld.so.cache"))
	}
	f, err := l.find(name, nil)
	if err != nil {
		return 0, err
	}
	for _, other := range others {
		var untrusted *UntrustedError
		if err := l.need(other, nil); errors.As(err, &untrusted) {
			return 0, err // otherwise the library may do without
		}
	}
	return l.load(f)
}

// find opens the first file that there is of a name.
func (l *Loader) find(name string, before []string) (*os.File, error) {
	paths := []string{name}
	if !strings.Contains(name, "/") {
		paths = nil
		for _, dir := range before {
			paths = append(paths, filepath.Join(dir, name))
		}
		paths = append(paths, cached(l.cache, name)...)
		for _, dir := range places() {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	for _, path := range paths {
		f, err := l.Trust.Open(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
}

// load loads an open library behind those that it needs. One that is no library is
// left to the system's loader, which says what is wrong with it.
func (l *Loader) load(f *os.File) (uintptr, error) {
	defer f.Close()
	l.done[f.Name()] = true
	if parsed, err := elf.NewFile(f); err == nil {
		needed, _ := parsed.ImportedLibraries()
		dirs := runPath(parsed, filepath.Dir(f.Name()))
		for _, name := range needed {
			if err := l.need(name, dirs); err != nil {
				return 0, err
			}
		}
	}
	// Open for as long as the process lives: the loader takes the name for the library's
	// own, and another file under this number for the same one.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return 0, fmt.Errorf("cannot keep %s open: %w", f.Name(), err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	handle, err := l.Open(path)
	if err != nil {
		unix.Close(fd)
		// It names the file as it was told to.
		return 0, errors.New(strings.ReplaceAll(err.Error(), path, f.Name()))
	}
	return handle, nil
}

// need loads what another library needs, if there is one: if there is none the
// system's loader says so.
func (l *Loader) need(name string, dirs []string) error {
	if l.Loaded(name) {
		return nil
	}
	f, err := l.find(name, dirs)
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	if l.done[f.Name()] {
		return f.Close()
	}
	_, err = l.load(f)
	return err
}

// runPath lists the directories that a library wants searched for those it needs.
func runPath(f *elf.File, origin string) []string {
	var out []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		all, _ := f.DynString(tag)
		for _, list := range all {
			for _, dir := range strings.Split(list, ":") {
				dir = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
				if filepath.IsAbs(dir) && !strings.Contains(dir, "$") {
					out = append(out, dir)
				}
			}
		}
	}
	return out
}
