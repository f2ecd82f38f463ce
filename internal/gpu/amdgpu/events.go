package amdgpu

import (
	"os"

	"dcm/internal/linux/sysfs"
)

// Concerns tells whether what the kernel says of a device (subsystem and path of
// a uevent) is of the driver's module.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// ModeFiles lists the files that modes are written to, of the GPUs that have some
// now. The driver tells nobody of a write to them.
func (n *Node) ModeFiles() []string {
	devices, _ := sysfs.Names(n.sys("bus/pci/devices")) // without any there is none
	var all []string
	for _, device := range devices {
		for _, name := range []string{computeFile, memoryFile} {
			file := n.sys("bus/pci/devices", device, name)
			if _, err := os.Lstat(file); err != nil {
				break // none has the second without the first
			}
			all = append(all, file)
		}
	}
	return all
}
