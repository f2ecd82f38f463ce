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

// Paths says where the layers are. Every one may be missing.
type Paths struct {
	Shipped    string // directory of shipped drop-ins
	Kubernetes string // file of the Kubernetes form
	Admin      string // the administrator's file
	Agent      string // the file of agents, see [selection.Propose]
	Local      string // directory of drop-ins that stay
	Runtime    string // directory of drop-ins that last until reboot
	Cmdline    string // the kernel command line
	Template   string // what the administrator's file is made from where there is none
	Kept       string // the last configuration that was in order
	Root       string // whatever is above it is trusted

	// Judged says that Admin is looked at and not used: it may belong to anyone.
	Judged bool

	given   map[string]string // texts that replace files
	without map[string]bool   // files that count as missing
}

// With returns the paths with a text in place of the file.
func (p Paths) With(file, text string) Paths {
	p.given = maps.Clone(p.given)
	if p.given == nil {
		p.given = make(map[string]string)
	}
	p.given[file] = text
	return p
}

// Without returns the paths with a file that counts as missing.
func (p Paths) Without(file string) Paths {
	p.without = maps.Clone(p.without)
	if p.without == nil {
		p.without = make(map[string]bool)
	}
	p.without[file] = true
	return p
}

// WithAdminText returns the paths with a text in place of the administrator's file. The text is
// checked and not used, so that it may come from anywhere: a pipe, a file of any user. name is
// the file's name in problems.
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

// Watched lists the directories whose change may change the configuration. Some
// may not exist yet.
func (p Paths) Watched() []string {
	dirs := []string{p.Shipped, filepath.Dir(p.Kubernetes), filepath.Dir(p.Admin), filepath.Dir(p.Agent), p.Local, p.Runtime}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// RuntimeSelection is the drop-in of a selection until reboot.
func (p Paths) RuntimeSelection() string { return filepath.Join(p.Runtime, SelectionFile) }
