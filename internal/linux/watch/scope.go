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

// errMoved says that a path changed while it was read.
var errMoved = errors.New("moved while it was looked at")

// scope is the set of paths to watch at present. Only the last element of a path may be a
// symbolic link.
type scope struct {
	add func(path string) error // adds a watch

	watched map[string]bool   // paths with an inotify watch
	content map[string]bool   // files, and directories in which all entries count
	steps   map[string]bool   // entries whose creation, removal or replacement changes the scope; true: on the path to an existing file
	found   map[string]string // identity of the file by path; "" if there is none
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

// linked adds the target of a symbolic link in a directory if it is a regular file. It watches
// the file and not its directory, which may have many changes. It does not watch devices: a link
// to /dev/null would report every write to it.
func (s *scope) linked(path string) error {
	real, info, err := s.resolve(path, false)
	if err != nil || info == nil || !info.Mode().IsRegular() {
		return err
	}
	return s.watchContent(path, real)
}

// resolve resolves a path link by link, because each link may be replaced, as Kubernetes does with
// "..data". It adds each watch before it reads the entry, so that no change is missed. The info
// is nil if the path does not exist.
//
// Unlike the walk of package sandbox it does not check owners: paths that do not exist and
// files of other users are watched, too.
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
				s.steps[next] = false // not known yet to exist
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

// identity returns a text that differs for another file of the same name, and after a change of
// owner or permissions, which decide whether the content is trusted.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Mode().String()
	}
	return fmt.Sprintf("%d:%d %v %d:%d", st.Dev, st.Ino, info.Mode(), st.Uid, st.Gid)
}
