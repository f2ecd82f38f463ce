package lease

import (
	"slices"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
)

// Reachable returns the device node of a partition other than those named that this process
// may open, "" if there is none. root is "/". A process that its unit confines to the named
// partitions has none; one that systemd could not confine may have one, since it can load no
// device program.
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
