package sim

// Uevent is a kernel event of a device, see kobject_uevent_env().
type Uevent struct{ Action, Path, Subsystem string }

// emit passes an event to the receiver. The caller holds n.mu.
func (n *Node) emit(action, path, subsystem string) {
	if n.opts.Uevent != nil {
		n.opts.Uevent(Uevent{action, "/" + path, subsystem})
	}
}

// came emits the events of a GPU that was bound to its driver: the DRM devices first (device_add), the end
// of the probe last (driver_bound). The caller holds n.mu.
func (n *Node) came(b *board) {
	for _, m := range b.minors {
		n.emit("add", pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
	n.emit("bind", pciPath(b.Address), "pci")
}

// went emits the events of a GPU that was unbound. The caller holds n.mu.
func (n *Node) went(b *board) {
	for _, m := range b.minors {
		n.emit("remove", pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
	n.emit("unbind", pciPath(b.Address), "pci")
}
