package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"dcm/internal/linux/pathwalk"
	"dcm/internal/sanitize"
)

// errMoved is returned if a path changes while it is read.
var errMoved = errors.New("the path changed while it was read")

// scope is the set of paths to watch, given the present directories and links. Only the last element
// of a path may be a symbolic link.
type scope struct {
	add func(path string) error // adds a watch

	watched map[string]bool   // paths with an inotify watch
	content map[string]bool   // files, and directories in which a change of any entry is signalled
	steps   map[string]bool   // entries whose creation, removal or replacement changes the scope; true if the path leads to an existing file
	found   map[string]string // identity of the file, by path; "" if there is none
}

func newScope(add func(string) error) *scope {
	return &scope{add: add, watched: map[string]bool{}, content: map[string]bool{}, steps: map[string]bool{}, found: map[string]string{}}
}

// directory adds the paths for one directory.
func (s *scope) directory(path string) error {
	real, info, err := s.resolve(path, true)
	if err != nil || info == nil {
		return err
	}
	if err := s.watchContent(path, real); err != nil || !info.IsDir() {
		return err
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return gone(sanitize.Error(err))
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if err := s.linked(filepath.Join(real, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// linked adds the target of a symbolic link if it is a regular file. It watches the file and not its
// directory, in which many other files may change. It does not watch devices, since every write to
// /dev/null would cause a signal.
func (s *scope) linked(path string) error {
	real, info, err := s.resolve(path, false)
	if err != nil || info == nil || !info.Mode().IsRegular() {
		return err
	}
	return s.watchContent(path, real)
}

// resolve resolves a path and watches each symbolic link on it, because a link may be replaced, as
// Kubernetes does with "..data". It adds each watch before it reads the entry, so that it misses no
// change. The info is nil if the path does not exist.
//
// Unlike package sandbox it does not check owners, and it accepts paths that do not exist.
func (s *scope) resolve(path string, parent bool) (string, fs.FileInfo, error) {
	s.found[path] = ""
	var steps []string
	walk := pathwalk.New("/", path)
	for len(walk.Rest) > 0 {
		last := len(walk.Rest) == 1
		next := walk.Next()
		info, err := os.Lstat(next)
		if err != nil || isLink(info) || parent && last {
			steps = append(steps, next)
			if _, known := s.steps[next]; !known {
				s.steps[next] = false // it is not known yet whether the path leads to a file
			}
			if err := s.watch(walk.Dir); err != nil {
				return "", nil, err
			}
			info, err = os.Lstat(next)
		}
		switch {
		case err != nil: // does not exist; its directory is watched
			return "", nil, nil
		case isLink(info):
			target, err := os.Readlink(next)
			if err != nil || walk.Follow(target) != nil {
				return "", nil, nil // the link's own directory is watched
			}
		default:
			walk.Dir = next
		}
	}
	info, err := os.Lstat(walk.Dir)
	if err != nil {
		return "", nil, gone(err)
	}
	for _, step := range steps {
		s.steps[step] = true
	}
	return walk.Dir, info, nil
}

func (s *scope) watchContent(path, real string) error {
	if err := s.watch(real); err != nil {
		return err
	}
	info, err := os.Lstat(real)
	if err != nil {
		return gone(err)
	}
	s.content[real] = true
	s.found[path] = identity(info)
	return nil
}

func (s *scope) watch(path string) error {
	if s.watched[path] {
		return nil
	}
	if err := s.add(path); err != nil {
		return gone(sanitize.Error(fmt.Errorf("cannot watch %s: %w", path, err)))
	}
	s.watched[path] = true
	return nil
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return err
}

func isLink(info fs.FileInfo) bool { return info.Mode()&fs.ModeSymlink != 0 }

// identity returns a text that changes if the file is replaced, or gets another owner or other
// permissions, which decide whether dcm trusts its content.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Mode().String()
	}
	return fmt.Sprintf("%d:%d %v %d:%d", st.Dev, st.Ino, info.Mode(), st.Uid, st.Gid)
}
