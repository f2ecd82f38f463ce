package config

import (
	"path/filepath"
	"slices"
)

// Paths says where the layers are. Every one may be missing.
type Paths struct {
	Shipped    string // directory of shipped drop-ins
	Kubernetes string // file of the Kubernetes form
	Admin      string // the administrator's file
	Agent      string // the file of agents, see [Propose]
	Local      string // directory of drop-ins that stay
	Runtime    string // directory of drop-ins that last until reboot
	Cmdline    string // the kernel command line
	Template   string // what the administrator's file is made from where there is none
	Kept       string // the last configuration that was in order
	Root       string // whatever is above it is trusted

	// Judged says that Admin is looked at and not used: it may belong to anyone.
	Judged bool

	given   map[string]string // texts to take in the place of files
	without map[string]bool   // files to take as not there
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
