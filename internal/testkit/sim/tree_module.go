package sim

import (
	"context"
	"slices"
	"strconv"
	"syscall"
)

// driverVersion is the version of the amdgpu module.
const driverVersion = "6.12.12"

// addModule adds /sys/module/amdgpu (Documentation/ABI/stable/sysfs-module).
func addModule(n *Node, t tree) {
	if n.module == absent {
		return
	}
	const dir = "sys/module/amdgpu/"
	t.text(dir+"initstate", string(n.module))
	t.text(dir+"version", driverVersion)
	t.text(dir+"srcversion", "533BB7E5866E52F63B9ACCB")
	t.text(dir+"coresize", "20000768")
	t.put(dir+"refcnt", attribute(0o444, func(context.Context) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return strconv.Itoa(references(n)) + "\n", nil
	}))
	t.text(dir+"parameters/user_partt_mode", n.params.String())
	t.put(dir+"holders", liveDirectory(func() map[string]*Entry {
		n.mu.LockRead()
		defer n.mu.UnlockRead()
		t := newTree()
		if usedByModule(n) {
			t.dir(user)
		}
		return t
	}))
	t.link(dir+"drivers/pci:amdgpu", "sys/bus/pci/drivers/amdgpu")
	t.link("sys/bus/pci/drivers/amdgpu/module", "sys/module/amdgpu")
}

// addDev adds /dev. The name kfd is always known, so that a bind mount over another /dev/kfd stays valid
// after a reload of the driver.
func addDev(n *Node, t tree) {
	t.dir("dev/dri")
	kfd := device(func(pid int) (*Handle, error) { return openKFD(n, pid) })
	kfd.hidden = n.module != live
	t.put("dev/kfd", kfd)
	for _, b := range n.boards {
		if !b.bound || !registered(n, b) {
			continue
		}
		for _, m := range b.minors {
			t.put("dev/dri/"+m.name, device(func(pid int) (*Handle, error) { return openDRM(n, b, m, pid) }))
		}
	}
}

// user is the module that uses amdgpu if a fault keeps the driver busy.
const user = "amdgpu_peer"

// references returns the reference count of the module: two for each open /dev/kfd, whose character device
// also belongs to the module, one for each open DRM device, and one for each module that uses it. The
// caller holds n.mu.
func references(n *Node) int {
	count := 0
	for h := range n.handles {
		if h.nvidia {
			continue
		}
		count++
		if h.board == nil {
			count++
		}
	}
	if usedByModule(n) {
		count++
	}
	return count
}

// usedByModule reports whether a fault prevents every unload of the driver. In a real kernel another module
// would do that. The caller holds n.mu.
func usedByModule(n *Node) bool {
	return slices.ContainsFunc(n.faults, func(f Fault) bool {
		return f.Op == OpUnload && f.Always && f.Errno == Errno(syscall.EBUSY)
	})
}
