package amdgpu

import "path/filepath"

// Concerns tells whether what the kernel says of a device (subsystem and path of
// a uevent) is of the driver's module.
func (n *Node) Concerns(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// ModeFiles lists the files that modes are written to, of the GPUs that have some
// now. The driver tells nobody of a write to them.
func (n *Node) ModeFiles() []string {
	var all []string
	for _, name := range []string{computeFile, memoryFile} {
		// The pattern is in order, and no other error is possible.
		found, _ := filepath.Glob(n.sys("bus/pci/devices/*", name))
		all = append(all, found...)
	}
	return all
}
