package lease

import (
	"slices"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
)

// Reachable returns a device node that this process can open although it belongs to none of the named
// partitions, "" if there is none. There is one if systemd cannot load BPF programs, so that it did not
// confine the process. root returns a path below "/".
//
// Reachable opens no device: access(2) also runs the BPF programs for devices
// (devcgroup_inode_permission in the kernel).
func Reachable(root func(elem ...string) string, parts []runstate.Part, named []string) string {
	for _, p := range parts {
		if !slices.Contains(named, p.Name) && p.Render != "" && unix.Access(root(p.Render), unix.R_OK|unix.W_OK) == nil {
			return p.Render
		}
	}
	return ""
}
