package sim

// Uevent is a kernel event of a device, see kobject_uevent_env().
type Uevent struct{ Action, Path, Subsystem string }

// emit passes an event to the receiver. n.mu is held.
func (n *Node) emit(action, path, subsystem string) {
	if n.opts.Uevent != nil {
		n.opts.Uevent(Uevent{action, "/" + path, subsystem})
	}
}

// came emits the events of a GPU that got its driver: the DRM devices come first (device_add),
// and the end of the probe comes last (driver_bound). n.mu is held.
func (n *Node) came(b *board) {
	for _, m := range b.minors {
		n.emit("add", pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
	n.emit("bind", pciPath(b.Address), "pci")
}

// went emits the events of a GPU that lost its driver. n.mu is held.
func (n *Node) went(b *board) {
	for _, m := range b.minors {
		n.emit("remove", pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
	n.emit("unbind", pciPath(b.Address), "pci")
}
