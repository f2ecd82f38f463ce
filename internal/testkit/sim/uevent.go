package sim

// Uevent is a kernel event of a device, see kobject_uevent_env().
type Uevent struct{ Action, Path, Subsystem string }

// emit passes an event to the receiver. The caller holds n.mu.
func emit(n *Node, action, path, subsystem string) {
	if n.opts.Uevent != nil {
		n.opts.Uevent(Uevent{action, "/" + path, subsystem})
	}
}

// came emits the events of a GPU that was bound to its driver: the DRM devices first (device_add), the end
// of the probe last (driver_bound). The caller holds n.mu.
func came(n *Node, b *board) {
	drmEvents(n, "add", b)
	emit(n, "bind", pciPath(b.Address), "pci")
}

// went emits the events of a GPU that was unbound. The caller holds n.mu.
func went(n *Node, b *board) {
	drmEvents(n, "remove", b)
	emit(n, "unbind", pciPath(b.Address), "pci")
}

// drmEvents emits an event for each DRM device of a GPU. The caller holds n.mu.
func drmEvents(n *Node, action string, b *board) {
	if !registered(n, b) {
		return
	}
	for _, m := range b.minors {
		emit(n, action, pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
}
