package amdgpu

import (
	"os"

	"dcm/internal/linux/sysfs"
)

// RelevantEvent reports whether the uevent is about the driver's module.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// ModeFiles lists the existing mode files. The driver sends no uevent when one is written.
func (n *Node) ModeFiles() []string {
	devices, _ := sysfs.Names(n.sys("bus/pci/devices")) // without devices there are no files
	var all []string
	for _, device := range devices {
		for _, name := range []string{computeFile, memoryFile} {
			file := n.sys("bus/pci/devices", device, name)
			if _, err := os.Lstat(file); err != nil {
				break // the memory mode file exists only with the compute mode file
			}
			all = append(all, file)
		}
	}
	return all
}
