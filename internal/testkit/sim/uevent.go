package sim

// Uevent is what the kernel tells of a device, see kobject_uevent_env().
type Uevent struct{ Action, Path, Subsystem string }

// tell hands an event to who wants them. n.mu is held.
func (n *Node) tell(action, path, subsystem string) {
	if n.opts.Uevent != nil {
		n.opts.Uevent(Uevent{action, "/" + path, subsystem})
	}
}

// came tells that a GPU got its driver: the DRM devices come first (device_add),
// and the end of the probe is told last (driver_bound). n.mu is held.
func (n *Node) came(b *board) {
	for _, m := range b.minors {
		n.tell("add", pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
	n.tell("bind", pciPath(b.Address), "pci")
}

// went tells that a GPU lost its driver. n.mu is held.
func (n *Node) went(b *board) {
	for _, m := range b.minors {
		n.tell("remove", pciPath(b.Address)+"/drm/"+m.name, "drm")
	}
	n.tell("unbind", pciPath(b.Address), "pci")
}
