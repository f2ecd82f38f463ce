package sim

import (
	"context"
	"slices"
	"strconv"
	"syscall"
)

// driverVersion is the version of the module.
const driverVersion = "6.12.12"

// addModule adds /sys/module/amdgpu (Documentation/ABI/stable/sysfs-module).
func (n *Node) addModule(t tree) {
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
		return strconv.Itoa(n.references()) + "\n", nil
	}))
	t.text(dir+"parameters/user_partt_mode", n.params.String())
	t.put(dir+"holders", directory(func() map[string]*Entry {
		n.mu.Lock()
		defer n.mu.Unlock()
		t := newTree()
		if n.usedByModule() {
			t.dir(user)
		}
		return t
	}))
	t.link(dir+"drivers/pci:amdgpu", "sys/bus/pci/drivers/amdgpu")
	t.link("sys/bus/pci/drivers/amdgpu/module", "sys/module/amdgpu")
}

// addDev adds /dev. The name kfd is always known, so that a file bound over
// another /dev/kfd stays the same one over a driver reload.
func (n *Node) addDev(t tree) {
	t.dir("dev/dri")
	kfd := device(n.openKFD)
	kfd.hidden = n.module != live
	t.put("dev/kfd", kfd)
	for _, b := range n.boards {
		if !b.bound {
			continue
		}
		for _, m := range b.minors {
			t.put("dev/dri/"+m.name, device(func(pid int) (*Handle, error) { return n.openDRM(b, m, pid) }))
		}
	}
}

// user is the module that uses amdgpu where the driver is to stay busy.
const user = "amdgpu_peer"

// references is the module's reference count: two for each open /dev/kfd, whose
// character device is the module's too, one for each open DRM device, and one for
// each module that uses it. n.mu is held.
func (n *Node) references() int {
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
	if n.usedByModule() {
		count++
	}
	return count
}

// usedByModule reports whether a fault keeps the driver from ever being unloaded. In a
// kernel that is another module's doing. n.mu is held.
func (n *Node) usedByModule() bool {
	return slices.ContainsFunc(n.faults, func(f Fault) bool {
		return f.Op == OpUnload && f.Always && f.Errno == Errno(syscall.EBUSY)
	})
}
