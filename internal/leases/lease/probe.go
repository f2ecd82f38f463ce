package lease

import (
	"slices"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
)

// Reachable returns a device node that this process can open and that belongs to none of the named
// partitions, "" if there is none. root returns a path below "/". There may be one if systemd
// cannot load BPF programs and so did not confine the process.
//
// No device is opened: the kernel runs the device programs for access(2), too
// (devcgroup_inode_permission).
func Reachable(root func(elem ...string) string, parts []runstate.Part, named []string) string {
	for _, p := range parts {
		if !slices.Contains(named, p.Name) && p.Render != "" && unix.Access(root(p.Render), unix.R_OK|unix.W_OK) == nil {
			return p.Render
		}
	}
	return ""
}
