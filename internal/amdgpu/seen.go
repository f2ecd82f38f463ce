package amdgpu

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Concerns tells whether what the kernel says of a device (subsystem and path of
// a uevent) may mean that a GPU came, went or got a driver.
func Concerns(subsystem, path string) bool {
	switch subsystem {
	case "pci", "drm":
		return true
	case "module":
		return path == "/module/"+driver
	}
	return false
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

// Seen sums up the GPUs as they are this moment, without waiting for a driver:
// two equal sums mean that nothing has happened between them, or was undone.
func (n *Node) Seen(ctx context.Context) string {
	found, err := within(ctx, n.functions)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, f := range found {
		if f.amd() {
			fmt.Fprintf(&b, "%s %q %s %q %t\n", f.Address, f.Driver, f.Mode(), f.Why, f.drm)
		}
	}
	return b.String()
}
