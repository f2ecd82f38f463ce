// Package pathwalk resolves a path one component at a time. The caller examines each directory and
// symbolic link, by path or by descriptor. The package itself reads no file.
package pathwalk

import (
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the kernel's limit of symbolic links in one path (MAXSYMLINKS).
const maxLinks = 40

// Walk is the state of the resolution of a path.
type Walk struct {
	Dir   string   // the directory that was reached, a path without symbolic links
	Rest  []string // the components that are not resolved yet
	links int
}

// New starts the resolution of path, which is relative to dir.
func New(dir, path string) *Walk { return &Walk{Dir: dir, Rest: split(path)} }

// Next takes the next component and returns its path. The caller then sets Dir to this path, or
// calls Follow if it is a symbolic link.
func (w *Walk) Next() string {
	next := filepath.Join(w.Dir, w.Rest[0])
	w.Rest = w.Rest[1:]
	return next
}

// Follow puts the target of a symbolic link before the rest of the path. If the target is absolute,
// the resolution continues at "/". After 40 links Follow returns ELOOP.
func (w *Walk) Follow(target string) error {
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	if filepath.IsAbs(target) {
		w.Dir = "/"
	}
	w.Rest = append(split(target), w.Rest...)
	return nil
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
