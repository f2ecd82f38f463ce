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

// Loader loads a library and its dependencies. It checks and opens each file once, and loads it by its
// descriptor, so a later change of the path has no effect. It loads dependencies first. Otherwise
// glibc's loader would search for them, and it does not check owners.
type Loader struct {
	Trust Trust
	// Open loads a file like dlopen(3) with RTLD_LOCAL.
	Open func(path string) (uintptr, error)
	// Loaded reports whether the process has a library of that name.
	Loaded func(name string) bool

	cache []byte
	done  map[string]bool // loaded files, by path without symbolic links
}

// ErrAbsent is returned if a library does not exist.
var ErrAbsent = errors.New("there is no such library")

// Load loads a library. name is a path or, without a slash, a name that Load searches for in the
// directories of the system's loader. others are libraries that this one opens at run time; Load first
// loads those that exist. The error wraps [ErrAbsent] if the library does not exist, and an
// [*UntrustedError] if another user could have written it or a dependency.
func (l *Loader) Load(name string, others ...string) (uintptr, error) {
	if l.done == nil {
		l.done = make(map[string]bool)
		// If the cache cannot be read, only the fixed directories are searched.
		l.cache, _ = os.ReadFile(filepath.Join(l.Trust.Root, "etc/ld.so.cache"))
	}
	f, err := l.find(name, nil)
	if err != nil {
		return 0, err
	}
	for _, other := range others {
		var untrusted *UntrustedError
		if err := l.need(other, nil); errors.As(err, &untrusted) {
			return 0, err // after any other error the library may still work without it
		}
	}
	return l.load(f)
}

// find opens the first file of that name, in the directories of before first.
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

// load loads the dependencies of an open library, then the library. If the file is not a library, the
// system's loader reports the error.
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
	// The descriptor is never closed. The loader identifies the library by this path, and would take
	// another file with the same descriptor for the same library.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return 0, fmt.Errorf("cannot keep %s open: %w", f.Name(), err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	handle, err := l.Open(path)
	if err != nil {
		unix.Close(fd)
		// The loader's message contains the path of the descriptor.
		return 0, errors.New(strings.ReplaceAll(err.Error(), path, f.Name()))
	}
	return handle, nil
}

// need loads a dependency if it exists. If it does not, the system's loader reports that later.
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

// runPath returns the directories that a library names for its dependencies (RUNPATH, RPATH).
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
