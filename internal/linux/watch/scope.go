package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"dcm/internal/sanitize"
)

// maxLinks is the kernel's limit of symbolic links in one path (MAXSYMLINKS).
const maxLinks = 40

// errMoved says that a directory went away while it was looked at.
var errMoved = errors.New("moved while it was looked at")

// scope is what has to be watched for the wanted paths as they are now. Its
// paths hold no symbolic links but in their last element.
type scope struct {
	add func(path string) error // begins to watch one path

	watched map[string]bool   // what inotify is asked for
	content map[string]bool   // directories in which every entry matters, and files
	steps   map[string]bool   // entries whose coming, going or replacement changes the scope; true: on the way to something found
	found   map[string]string // path → identity of what it leads to, "" for nothing
}

func newScope(add func(string) error) *scope {
	return &scope{add: add, watched: map[string]bool{}, content: map[string]bool{}, steps: map[string]bool{}, found: map[string]string{}}
}

// directory adds what one wanted directory needs.
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

// linked adds what a symbolic link in a wanted directory leads to, if that is a
// file: an edit of it is an edit of what is in the directory. The file itself is
// watched and not its directory, which may be a busy one. A device is not: a
// masking link to /dev/null would report every write to it.
func (s *scope) linked(path string) error {
	real, info, err := s.resolve(path, false)
	if err != nil || info == nil || !info.Mode().IsRegular() {
		return err
	}
	return s.watchContent(path, real)
}

// resolve walks a path link by link, because each link on the way may be
// swapped, as Kubernetes does with "..data". What must tell of such a change is
// watched first and looked at then, so that no change falls between the two. The
// info is nil where the path leads to nothing.
func (s *scope) resolve(path string, parent bool) (string, fs.FileInfo, error) {
	s.found[path] = ""
	var steps []string
	at, rest, links := "/", elements(path), 0
	for len(rest) > 0 {
		next, last := filepath.Join(at, rest[0]), len(rest) == 1
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil || isLink(info) || parent && last {
			steps = append(steps, next)
			if _, known := s.steps[next]; !known {
				s.steps[next] = false // not yet on the way to anything
			}
			if err := s.watch(at); err != nil {
				return "", nil, err
			}
			info, err = os.Lstat(next)
		}
		switch {
		case err != nil: // its directory is watched for it to appear
			return "", nil, nil
		case isLink(info):
			target, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return "", nil, nil // the link's own directory is watched
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(elements(target), rest...)
		default:
			at = next
		}
	}
	info, err := os.Lstat(at)
	if err != nil {
		return "", nil, gone(err)
	}
	for _, step := range steps {
		s.steps[step] = true
	}
	return at, info, nil
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

// identity tells a directory from its successor of the same name. Its
// permissions belong to it: they may decide whether the content is trusted.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Mode().String()
	}
	return fmt.Sprintf("%d:%d %v %d:%d", st.Dev, st.Ino, info.Mode(), st.Uid, st.Gid)
}

func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
