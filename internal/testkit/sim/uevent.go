package sim

// emit passes an event to the receiver when the caller, who holds n.mu, releases it.
func emit(n *Node, action, path, subsystem string) {
	if n.opts.Uevent != nil {
		n.mu.outbox = append(n.mu.outbox, Uevent{action, "/" + path, subsystem})
		n.mu.changed = true
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
