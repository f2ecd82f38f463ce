package config

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// Paths are the paths of the layers. Each file or directory may be missing.
type Paths struct {
	Shipped    string // directory of shipped drop-ins
	Kubernetes string // file of the Kubernetes form
	Admin      string // the administrator's file
	Agent      string // the file of agents, see [selection.Propose]
	Local      string // directory of persistent drop-ins
	Runtime    string // directory of drop-ins that last until reboot
	Cmdline    string // the kernel command line
	Template   string // template of the administrator's file
	Kept       string // the last good configuration
	Root       string // directories above it are trusted

	// Judged is set if Admin is only checked, not used. It may then belong to any user.
	Judged bool

	given   map[string]string // texts that replace files, by path
	without map[string]bool   // files that are treated as missing
}

// With returns the paths with a text that replaces the file.
func (p Paths) With(file, text string) Paths {
	p.given = maps.Clone(p.given)
	if p.given == nil {
		p.given = make(map[string]string)
	}
	p.given[file] = text
	return p
}

// Without returns the paths with a file that is treated as missing.
func (p Paths) Without(file string) Paths {
	p.without = maps.Clone(p.without)
	if p.without == nil {
		p.without = make(map[string]bool)
	}
	p.without[file] = true
	return p
}

// WithAdminText returns the paths with a text that replaces the administrator's file. The text is only
// checked, so it may come from a pipe or a file of any user. name is the file's name in problems.
func (p Paths) WithAdminText(name string, from io.Reader) (Paths, error) {
	file := sanitize.Named(name)
	content, err := source.ReadAtMost(from)
	if err != nil {
		return p, fmt.Errorf("cannot read %s: %s", file, source.Cause(err))
	}
	r := p.NewReader()
	text, ok := r.Accept(file, content)
	if !ok {
		return p, source.NewErrors(r.Problems...)
	}
	p.Admin, p.Judged, p.given = name, true, map[string]string{name: text}
	return p, nil
}

// DefaultPaths returns the usual paths under root, "/" on a host.
func DefaultPaths(root string) Paths {
	if root == "" {
		root = "/"
	}
	return Paths{
		Shipped:    filepath.Join(root, "usr/lib/dcm/dcm.toml.d"),
		Kubernetes: filepath.Join(root, "etc/dcm/config.json"),
		Admin:      filepath.Join(root, "etc/dcm/dcm.toml"),
		Agent:      filepath.Join(root, "etc/dcm/agent.toml"),
		Local:      filepath.Join(root, "etc/dcm/dcm.toml.d"),
		Runtime:    filepath.Join(root, "run/dcm/dcm.toml.d"),
		Cmdline:    filepath.Join(root, "proc/cmdline"),
		Template:   filepath.Join(root, "usr/share/dcm/dcm.toml"),
		Kept:       filepath.Join(root, "run/dcm/last-good.toml"),
		Root:       filepath.Clean(root),
	}
}

// Watched lists the directories of the layers. Some may not exist.
func (p Paths) Watched() []string {
	dirs := []string{p.Shipped, filepath.Dir(p.Kubernetes), filepath.Dir(p.Admin), filepath.Dir(p.Agent), p.Local, p.Runtime}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// RuntimeSelection is the drop-in of a selection until reboot.
func (p Paths) RuntimeSelection() string { return filepath.Join(p.Runtime, SelectionFile) }
