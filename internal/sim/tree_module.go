package sim

// driverVersion is the version that the module tells.
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
	t.text(dir+"refcnt", "0")
	t.text(dir+"parameters/user_partt_mode", n.params.String())
	t.dir(dir + "holders")
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
